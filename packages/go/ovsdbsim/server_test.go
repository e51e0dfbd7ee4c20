package ovsdbsim_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"patchbay.example/ovsdbsim"
)

const rows = `
Logical_Switch: {sw0: {ports: [sw0-p1]}}
Logical_Switch_Port: {sw0-p1: {addresses: dynamic}}
`

const text = `Logical_Switch sw0
    name: sw0
    ports: [sw0-p1]
Logical_Switch_Port sw0-p1
    addresses: [dynamic]
    name: sw0-p1
`

func isReachable(server *ovsdbsim.Server) bool {
	connection, err := net.Dial("unix", strings.TrimPrefix(server.Remote(), "unix:"))
	if err == nil {
		connection.Close()
	}
	return err == nil
}

func TestRowsSnapshotsAndResets(t *testing.T) {
	server := ovsdbsim.Start(t, ovsdbsim.WithSchemas("northbound", "southbound"))
	uuids := server.InsertRows(t, "", rows)
	if len(uuids["Logical_Switch"]["sw0"]) != 36 {
		t.Fatalf("%v", uuids)
	}
	if got := server.Snapshot(t, "OVN_Northbound"); got != text {
		t.Fatalf("%s", got)
	}
	path := filepath.Join(t.TempDir(), "rows.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	server.AssertSnapshot(t, "", path)
	server.Keep(t, "base")
	server.InsertRows(t, "OVN_Southbound", map[string]any{"Chassis_Private": map[string]any{"hv1": map[string]any{}}})
	results := server.Transact(t, "", map[string]any{"op": "delete", "table": "Logical_Switch", "where": []any{}})
	if string(results[0]) != `{"count":1}` || server.Snapshot(t, "") != "" {
		t.Fatalf("%s", results)
	}
	server.Restore(t, "base")
	if got := server.Snapshot(t, ""); got != text {
		t.Fatalf("%s", got)
	}
	server.Reset(t)
	if server.Snapshot(t, "")+server.Snapshot(t, "OVN_Southbound") != "" {
		t.Fatal("rows are left")
	}
}

// failures is a test that notes its failure.
type failures struct {
	testing.TB
	text string
}

func (f *failures) Helper() {}

func (f *failures) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

func TestErrorsNameTableRowAndColumn(t *testing.T) {
	server := ovsdbsim.Start(t)
	failed := &failures{TB: t}
	server.InsertRows(failed, "", "Logical_Switch: {sw0: {ports: [p]}}")
	if !strings.Contains(failed.text, `Logical_Switch sw0, column ports: there is no Logical_Switch_Port "p"`) {
		t.Fatalf("%s", failed.text)
	}
	server.InsertRows(t, "", rows)
	failed = &failures{TB: t}
	server.AssertSnapshot(failed, "", filepath.Join(t.TempDir(), "nowhere.txt"))
	if !strings.Contains(failed.text, "OVSDB_SIM_UPDATE=1 writes it") {
		t.Fatalf("%s", failed.text)
	}
}

func TestFaultsEndWithTheirTest(t *testing.T) {
	server := ovsdbsim.Start(t)
	t.Run("once", func(t *testing.T) {
		fault := server.SetFault(t, ovsdbsim.Rule{Fault: "stop_reading"})
		if !strings.Contains(string(fault.Rule), `"times":1`) || len(server.Faults(t)) != 1 {
			t.Fatalf("%s", fault.Rule)
		}
	})
	t.Run("always", func(t *testing.T) {
		fault := server.SetFault(t, ovsdbsim.Rule{Fault: "drop", Times: ovsdbsim.Always, Connections: "next"})
		if !strings.Contains(string(fault.Rule), `"times":"always"`) {
			t.Fatalf("%s", fault.Rule)
		}
	})
	if faults := server.Faults(t); len(faults) != 0 {
		t.Fatalf("%v", faults)
	}
	server.GoDown(t)
	if isReachable(server) {
		t.Fatal("it is down")
	}
	server.ComeBack(t)
	if !isReachable(server) {
		t.Fatal("it has come back")
	}
}

func TestAServerEndsWithItsTest(t *testing.T) {
	var server *ovsdbsim.Server
	t.Run("with a server", func(t *testing.T) {
		server = ovsdbsim.Start(t, ovsdbsim.WithArguments("--seed=1"))
		if !isReachable(server) {
			t.Fatal(server.Log())
		}
	})
	if isReachable(server) {
		t.Fatal("it has ended")
	}
	if _, err := ovsdbsim.New(ovsdbsim.WithSchemas("/nowhere")); err == nil || !strings.Contains(err.Error(), "cannot read /nowhere") {
		t.Fatalf("%v", err)
	}
}

func TestAProgramIsDownloadedOnceAndChecked(t *testing.T) {
	program := os.Getenv("PATCHBAY_OVSDB_SIM")
	if program == "" {
		found, err := exec.LookPath("ovsdb-sim")
		if err != nil {
			t.Fatal(err)
		}
		program = found
	}
	program, err := filepath.Abs(program)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := exec.Command("sha256sum", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	checksum := strings.Fields(string(sum))[0]
	t.Setenv("PATCHBAY_OVSDB_SIM", "")
	t.Setenv("PATH", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if _, err := ovsdbsim.New(); err == nil || !strings.Contains(err.Error(), "there is no WithDownload") {
		t.Fatalf("%v", err)
	}
	wrong := strings.Repeat("0", 64)
	if _, err := ovsdbsim.New(ovsdbsim.WithDownload("file://"+program, wrong)); err == nil || !strings.Contains(err.Error(), "has the checksum "+checksum) {
		t.Fatalf("%v", err)
	}
	if !isReachable(ovsdbsim.Start(t, ovsdbsim.WithDownload("file://"+program, checksum))) {
		t.Fatal("it runs")
	}
	// The second time, the address is not needed.
	if !isReachable(ovsdbsim.Start(t, ovsdbsim.WithDownload("file:///nowhere", checksum))) {
		t.Fatal("it runs")
	}
}
