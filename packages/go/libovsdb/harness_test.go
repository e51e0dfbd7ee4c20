// Package libovsdb_test shows a harness of OVN-Kubernetes' kind: a client with a cache and indexes
// for all tests, each of which begins with its own rows.
package libovsdb_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"

	"patchbay.example/ovsdbsim"
)

// timeout is far more than anything here needs, even on a loaded machine.
const timeout = time.Minute

type logicalSwitch struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Ports       []string          `ovsdb:"ports"`
	OtherConfig map[string]string `ovsdb:"other_config"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

type logicalSwitchPort struct {
	UUID        string            `ovsdb:"_uuid"`
	Name        string            `ovsdb:"name"`
	Addresses   []string          `ovsdb:"addresses"`
	ExternalIDs map[string]string `ovsdb:"external_ids"`
}

var (
	server *ovsdbsim.Server
	nb     client.Client
)

func TestMain(m *testing.M) {
	status, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func run(m *testing.M) (int, error) {
	var err error
	if server, err = ovsdbsim.New(); err != nil {
		return 0, err
	}
	defer server.Stop()
	if nb, err = connect(server.Remote()); err != nil {
		return 0, err
	}
	defer nb.Close()
	return m.Run(), nil
}

// connect connects a client with a cache of two tables, and an index of the owner of ports.
func connect(remote string) (client.Client, error) {
	database, err := model.NewClientDBModel("OVN_Northbound", map[string]model.Model{
		"Logical_Switch":      &logicalSwitch{},
		"Logical_Switch_Port": &logicalSwitchPort{},
	})
	if err != nil {
		return nil, err
	}
	database.SetIndexes(map[string][]model.ClientIndex{
		"Logical_Switch_Port": {{Columns: []model.ColumnKey{{Column: "external_ids", Key: "pod"}}}},
	})
	discard := logr.Discard()
	c, err := client.NewOVSDBClient(database,
		client.WithEndpoint(remote),
		client.WithLogger(&discard),
		client.WithReconnect(timeout, backoff.NewConstantBackOff(10*time.Millisecond)),
	)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := c.Connect(ctx); err != nil {
		return nil, err
	}
	_, err = c.MonitorAll(ctx)
	return c, err
}

// begin resets the server and inserts the rows of a test. It returns when the cache has them.
func begin(t *testing.T, rows string) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	server.Reset(t)
	eventually(t, func() bool { return len(switches(t, ctx)) == 0 })
	uuids := server.InsertRows(t, "", rows)
	eventually(t, func() bool { return len(switches(t, ctx)) == len(uuids["Logical_Switch"]) })
	return ctx
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("it does not come true\n%s", server.Log())
		}
	}
}

// switches are the names of the switches in the cache.
func switches(t *testing.T, ctx context.Context) []string {
	t.Helper()
	var rows []logicalSwitch
	if err := nb.List(ctx, &rows); err != nil {
		t.Fatal(err)
	}
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		names = append(names, row.Name)
	}
	slices.Sort(names)
	return names
}

// addPort is the code under test: it adds the port of a pod to a switch.
func addPort(ctx context.Context, name, pod string) error {
	port := &logicalSwitchPort{UUID: "new", Name: pod, ExternalIDs: map[string]string{"pod": pod}}
	operations, err := nb.Create(port)
	if err != nil {
		return err
	}
	wanted := &logicalSwitch{}
	mutations, err := nb.WhereCache(func(row *logicalSwitch) bool { return row.Name == name }).
		Mutate(wanted, model.Mutation{Field: &wanted.Ports, Mutator: ovsdb.MutateOperationInsert, Value: []string{"new"}})
	if err != nil {
		return err
	}
	operations = append(operations, mutations...)
	results, err := nb.Transact(ctx, operations...)
	if err != nil {
		return err
	}
	_, err = ovsdb.CheckOperationResults(results, operations)
	return err
}

const twoSwitches = "Logical_Switch: {blue: {other_config: {subnet: 10.0.0.0/24}}, red: {}}"

func TestThePortOfAPod(t *testing.T) {
	ctx := begin(t, twoSwitches)
	if err := addPort(ctx, "blue", "pod1"); err != nil {
		t.Fatal(err)
	}
	server.AssertSnapshot(t, "", filepath.Join("testdata", "port.txt"))
	// The index of the cache.
	wanted := &logicalSwitchPort{ExternalIDs: map[string]string{"pod": "pod1"}}
	var found []logicalSwitchPort
	eventually(t, func() bool { return nb.Where(wanted).List(ctx, &found) == nil && len(found) == 1 })
	if found[0].Name != "pod1" {
		t.Fatalf("%v", found)
	}
}

func TestTheNextTestBeginsWithItsOwnRows(t *testing.T) {
	ctx := begin(t, "Logical_Switch: {green: {}}")
	if names := switches(t, ctx); !slices.Equal(names, []string{"green"}) {
		t.Fatalf("%v", names)
	}
	if err := addPort(ctx, "green", "pod1"); err != nil {
		t.Fatal(err)
	}
}

func TestARefusedTransactionIsAnError(t *testing.T) {
	ctx := begin(t, twoSwitches)
	server.SetFault(t, ovsdbsim.Rule{Fault: map[string]any{
		"fail_commit": map[string]any{"error": "I/O error", "details": "No space left on device"},
	}})
	if err := addPort(ctx, "red", "pod1"); err == nil {
		t.Fatal("the disk is full")
	}
	if err := addPort(ctx, "red", "pod1"); err != nil {
		t.Fatal(err)
	}
}

func TestTheClientReconnectsAfterAnOutage(t *testing.T) {
	ctx := begin(t, twoSwitches)
	server.GoDown(t)
	// Another client's change, which this one has missed.
	server.Transact(t, "", map[string]any{"op": "delete", "table": "Logical_Switch", "where": []any{[]any{"name", "==", "red"}}})
	server.ComeBack(t)
	eventually(t, func() bool { return nb.Connected() && slices.Equal(switches(t, ctx), []string{"blue"}) })
	if err := addPort(ctx, "blue", "pod2"); err != nil {
		t.Fatal(err)
	}
}
