// Package ovsdbsim starts an OVSDB server in memory for tests.
//
//	func TestSwitch(t *testing.T) {
//		server := ovsdbsim.Start(t)
//		server.InsertRows(t, "", "Logical_Switch: {sw0: {}}")
//		connect(server.Remote())
//	}
//
// The program is that of PATCHBAY_OVSDB_SIM, that of PATH, or one that Download fetches. It ends with
// the test, and with the test process, whatever ends it.
package ovsdbsim

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// TB is the part of testing.TB that the package needs.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Name() string
}

const (
	programName = "ovsdb-sim"
	// programVariable is the environment variable with the path of the program.
	programVariable = "PATCHBAY_OVSDB_SIM"
	// controlLine begins the line of standard output that follows when clients can connect.
	controlLine = "control API on "
	// startSnapshot is the snapshot with the rows that the server had at its start.
	startSnapshot = "start"
	endTimeout    = 10 * time.Second
)

// Server is a running server.
type Server struct {
	control *control
	remote  string
	command *exec.Cmd
	folder  string
	log     *lockedBuffer
	stopped sync.Once
}

type settings struct {
	program   string
	archive   *archive
	arguments []string
}

// Option is an option of Start.
type Option func(*settings)

// WithSchemas serves empty databases with these schemas: names (northbound, southbound, vswitch,
// ic-northbound, ic-southbound, vtep) or paths. Without any, OVN_Northbound is served.
func WithSchemas(schemas ...string) Option {
	return func(s *settings) {
		for _, schema := range schemas {
			s.arguments = append(s.arguments, "--schema="+schema)
		}
	}
}

// WithRows inserts the rows in files of YAML or JSON. Reset returns to them.
func WithRows(paths ...string) Option {
	return func(s *settings) {
		for _, path := range paths {
			s.arguments = append(s.arguments, "--rows="+path)
		}
	}
}

// WithArguments adds arguments of the program.
func WithArguments(arguments ...string) Option {
	return func(s *settings) { s.arguments = append(s.arguments, arguments...) }
}

// WithProgram starts the program at a path.
func WithProgram(path string) Option {
	return func(s *settings) { s.program = path }
}

// WithDownload starts the program of a release, if neither PATCHBAY_OVSDB_SIM nor PATH has one. url is
// the address of the program, http(s) or file, and sha256 its checksum in hexadecimal digits. The
// program is kept in the user's cache.
func WithDownload(url, sha256 string) Option {
	return func(s *settings) { s.archive = &archive{url, sha256} }
}

// Start starts a server that ends with the test.
func Start(t TB, options ...Option) *Server {
	t.Helper()
	server, err := New(options...)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(server.Stop)
	return server
}

// New starts a server for a TestMain, which calls Stop.
func New(options ...Option) (*Server, error) {
	var s settings
	for _, option := range options {
		option(&s)
	}
	program, err := s.find()
	if err != nil {
		return nil, err
	}
	// Not the folder of the test, whose path may be too long for a socket.
	folder, err := os.MkdirTemp("", "ovsdb-sim-")
	if err != nil {
		return nil, err
	}
	server := &Server{folder: folder, log: &lockedBuffer{}}
	if err := server.start(program, s.arguments); err != nil {
		os.RemoveAll(folder)
		return nil, err
	}
	return server, nil
}

// find returns the path of the program.
func (s *settings) find() (string, error) {
	if s.program != "" {
		return s.program, nil
	}
	if given := os.Getenv(programVariable); given != "" {
		return given, nil
	}
	if found, err := exec.LookPath(programName); err == nil {
		return found, nil
	}
	if s.archive != nil {
		return s.archive.fetch()
	}
	return "", fmt.Errorf("%s is neither in %s nor in PATH, and there is no WithDownload", programName, programVariable)
}

func (s *Server) start(program string, arguments []string) error {
	socket := filepath.Join(s.folder, "db.sock")
	s.remote = "unix:" + socket
	s.command = exec.Command(program, append([]string{
		"--listen=punix:" + socket,
		"--control=127.0.0.1:0",
		"--exit-with-parent=" + strconv.Itoa(os.Getpid()),
	}, arguments...)...)
	s.command.Stderr = s.log
	output, err := s.command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.command.Start(); err != nil {
		return err
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), controlLine); ok {
			s.control = newControl(address)
			return nil
		}
	}
	err = s.command.Wait()
	return fmt.Errorf("%s: %w\n%s", program, errors.Join(err, lines.Err()), s.log)
}

// Stop ends the server. A second call has no effect.
func (s *Server) Stop() {
	s.stopped.Do(func() {
		_ = s.command.Process.Signal(syscall.SIGTERM)
		late := time.AfterFunc(endTimeout, func() { _ = s.command.Process.Kill() })
		_ = s.command.Wait()
		late.Stop()
		_ = os.RemoveAll(s.folder)
	})
}

// Remote is the remote for OVSDB clients: unix:PATH.
func (s *Server) Remote() string { return s.remote }

// Control is the address of the control API.
func (s *Server) Control() string { return s.control.address }

// Log is the server's log up to now.
func (s *Server) Log() string { return s.log.String() }

// lockedBuffer is a buffer that one goroutine writes and another reads.
type lockedBuffer struct {
	mutex  sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.buffer.String()
}
