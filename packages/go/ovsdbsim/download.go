package ovsdbsim

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// archive is a program at an address, with its checksum.
type archive struct{ url, sha256 string }

// fetch returns the path of the program, which is downloaded once and checked each time.
func (a *archive) fetch() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	checksum := strings.ToLower(a.sha256)
	if bytes, err := hex.DecodeString(checksum); err != nil || len(bytes) != sha256.Size {
		return "", fmt.Errorf("%s: %q is no SHA-256 in hexadecimal digits", a.url, a.sha256)
	}
	folder := filepath.Join(cache, "patchbay", programName)
	path := filepath.Join(folder, checksum)
	if sum, err := checksumOf(path); err == nil && sum == checksum {
		return path, nil
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	// Under another name until it is whole: tests of several packages run at once.
	file, err := os.CreateTemp(folder, "download-")
	if err != nil {
		return "", err
	}
	defer os.Remove(file.Name())
	err = errors.Join(a.download(file), file.Chmod(0o755), file.Close())
	if err != nil {
		return "", fmt.Errorf("%s: %w", a.url, err)
	}
	sum, err := checksumOf(file.Name())
	if err != nil {
		return "", err
	}
	if sum != checksum {
		return "", fmt.Errorf("%s has the checksum %s, not %s", a.url, sum, checksum)
	}
	return path, os.Rename(file.Name(), path)
}

func (a *archive) download(to io.Writer) error {
	address, err := url.Parse(a.url)
	if err != nil {
		return err
	}
	if address.Scheme == "file" {
		file, err := os.Open(address.Path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(to, file)
		return err
	}
	response, err := http.Get(a.url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	_, err = io.Copy(to, response.Body)
	return err
}

func checksumOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
