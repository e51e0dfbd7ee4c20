package ovsdbsim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
)

// maxAnswer is the length of the longest answer, in bytes: more than any of the control API.
const maxAnswer = 64 << 20

// UpdateVariable is the environment variable with which AssertSnapshot writes files: any value.
const UpdateVariable = "OVSDB_SIM_UPDATE"

// control is a client of the control API: JSON-RPC 2.0 over HTTP.
type control struct {
	address string
	number  atomic.Int64
}

func newControl(address string) *control { return &control{address: address} }

type answer struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

// Call calls a method of the control API. result is a pointer, or nil.
func (s *Server) Call(method string, result any, params ...any) error {
	if params == nil {
		params = []any{}
	}
	request := map[string]any{"jsonrpc": "2.0", "id": s.control.number.Add(1), "method": method, "params": params}
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	response, err := http.Post(s.control.address, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", method, response.Status, text)
	}
	var reply answer
	if err := json.Unmarshal(text, &reply); err != nil {
		return err
	}
	if reply.Error != nil {
		if len(reply.Error.Data) > 0 {
			return fmt.Errorf("%s: %s: %s", method, reply.Error.Message, reply.Error.Data)
		}
		return fmt.Errorf("%s: %s", method, reply.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(reply.Result, result)
}

func (s *Server) must(t TB, method string, result any, params ...any) {
	t.Helper()
	if err := s.Call(method, result, params...); err != nil {
		t.Fatalf("%v", err)
	}
}

// Reset returns to the rows of the server's start and clears faults. Connections stay.
func (s *Server) Reset(t TB) {
	t.Helper()
	s.must(t, "sim_reset", nil, startSnapshot)
}

// UUIDs are those of inserted rows, by table and name.
type UUIDs map[string]map[string]string

// InsertRows inserts rows by table and name into a database; "" is OVN_Northbound or, if it is not
// served, the first one by name. rows is a text of YAML or JSON, or a value that encoding/json
// marshals to an object of tables.
func (s *Server) InsertRows(t TB, database string, rows any) UUIDs {
	t.Helper()
	var uuids UUIDs
	s.must(t, "sim_insert_rows", &uuids, rows, optional(database))
	return uuids
}

// Transact executes operations in RFC 7047 notation, and returns their results.
func (s *Server) Transact(t TB, database string, operations ...any) []json.RawMessage {
	t.Helper()
	var results []json.RawMessage
	s.must(t, "sim_transact", &results, operations, optional(database))
	return results
}

// Snapshot is the text of all rows with names in place of UUIDs: equal for equal content.
func (s *Server) Snapshot(t TB, database string) string {
	t.Helper()
	var text string
	s.must(t, "sim_text", &text, optional(database))
	return text
}

// AssertSnapshot compares the text of all rows with a file, or writes it if OVSDB_SIM_UPDATE is set.
func (s *Server) AssertSnapshot(t TB, database, path string) {
	t.Helper()
	text := s.Snapshot(t, database)
	if os.Getenv(UpdateVariable) != "" {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatalf("%v", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatalf("%v", err)
		}
		return
	}
	wanted, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; %s=1 writes it", err, UpdateVariable)
	}
	if string(wanted) != text {
		t.Fatalf("%s differs from the rows; %s=1 writes it\n--- file\n%s--- rows\n%s", path, UpdateVariable, wanted, text)
	}
}

// Keep keeps the present rows under a name.
func (s *Server) Keep(t TB, name string) {
	t.Helper()
	s.must(t, "sim_snapshot", nil, name)
}

// Restore returns to the rows that Keep has kept.
func (s *Server) Restore(t TB, name string) {
	t.Helper()
	s.must(t, "sim_restore", nil, name)
}

// Always lets a fault strike without an end.
const Always = "always"

// Rule is a fault as the README of ovsdb-sim lists them, with the number of times that it strikes: a
// number, Always, or nil for once.
type Rule struct {
	Fault       any `json:"fault"`
	Times       any `json:"times,omitempty"`
	Connections any `json:"connections,omitempty"`
}

// Fault is a fault that is set.
type Fault struct {
	ID     uint64          `json:"id"`
	Rule   json.RawMessage `json:"rule"`
	Struck uint64          `json:"struck"`
}

// SetFault sets a fault until the end of the test, or until it has struck as often as it should.
func (s *Server) SetFault(t TB, rule Rule) Fault {
	t.Helper()
	var fault Fault
	s.must(t, "sim_set_fault", &fault, rule)
	t.Cleanup(func() {
		// Fails if the fault has struck as often as it should.
		_ = s.Call("sim_clear_faults", nil, fault.ID)
	})
	return fault
}

// Faults are the faults that are set.
func (s *Server) Faults(t TB) []Fault {
	t.Helper()
	var faults []Fault
	s.must(t, "sim_faults", &faults)
	return faults
}

// GoDown closes all listeners and connections.
func (s *Server) GoDown(t TB) {
	t.Helper()
	s.must(t, "sim_go_down", nil)
}

// ComeBack serves clients again, at the same addresses.
func (s *Server) ComeBack(t TB) {
	t.Helper()
	s.must(t, "sim_come_back", nil)
}

func optional(database string) any {
	if database == "" {
		return nil
	}
	return database
}
