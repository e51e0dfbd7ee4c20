package main

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/go-logr/logr"
	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

// stepTimeout limits each wait: far more than it needs, even on a loaded machine.
const stepTimeout = 120 * time.Second

var uuids = regexp.MustCompile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

// everyRow is a condition, because libovsdb leaves out an empty list of conditions.
var everyRow = []ovsdb.Condition{
	ovsdb.NewCondition("_uuid", ovsdb.ConditionNotEqual, ovsdb.UUID{GoUUID: "00000000-0000-0000-0000-000000000000"}),
}

// Thing is a row with all types of columns.
type Thing struct {
	UUID         string            `ovsdb:"_uuid"`
	Name         string            `ovsdb:"name"`
	Integer      int               `ovsdb:"integer"`
	Real         float64           `ovsdb:"real"`
	Boolean      bool              `ovsdb:"boolean"`
	Identifier   string            `ovsdb:"identifier"`
	Level        string            `ovsdb:"level"`
	MaybeText    *string           `ovsdb:"maybe_text"`
	MaybeInteger *int              `ovsdb:"maybe_integer"`
	MaybeReal    *float64          `ovsdb:"maybe_real"`
	MaybeBoolean *bool             `ovsdb:"maybe_boolean"`
	Texts        []string          `ovsdb:"texts"`
	Integers     []int             `ovsdb:"integers"`
	Reals        []float64         `ovsdb:"reals"`
	Identifiers  []string          `ovsdb:"identifiers"`
	Pairs        map[string]string `ovsdb:"pairs"`
	Counts       map[string]int    `ovsdb:"counts"`
	Names        map[int]string    `ovsdb:"names"`
	Parts        []string          `ovsdb:"parts"`
	Friends      []string          `ovsdb:"friends"`
	NamedParts   map[string]string `ovsdb:"named_parts"`
}

// Part is a row that exists while a Thing refers to it.
type Part struct {
	UUID string `ovsdb:"_uuid"`
	Name string `ovsdb:"name"`
}

// Turn is the row whose changes separate transactions.
type Turn struct {
	UUID   string `ovsdb:"_uuid"`
	Number int    `ovsdb:"number"`
}

// session is a client with the events that it has seen.
type session struct {
	client.Client
	mutex  sync.Mutex
	events []string
	// turns that the client has seen, by the UUID of the row.
	turns map[string]int
	// names of rows by UUID, for the events.
	names map[string]string
	// own is the row of this session's turns, and number its last value.
	own    string
	number int
}

// open connects to the first endpoint that accepts it. Client indexes are on the key "owner" of
// pairs and on the level.
func open(leaderOnly bool, endpoints ...string) *session {
	things := must(model.NewClientDBModel("Things", map[string]model.Model{
		"Thing": &Thing{}, "Part": &Part{}, "Turn": &Turn{},
	}))
	things.SetIndexes(map[string][]model.ClientIndex{"Thing": {
		{Columns: []model.ColumnKey{{Column: "pairs", Key: "owner"}}},
		{Columns: []model.ColumnKey{{Column: "level"}}},
	}})
	silent := logr.Discard()
	options := []client.Option{
		client.WithLogger(&silent),
		client.WithLeaderOnly(leaderOnly),
		client.WithReconnect(stepTimeout, backoff.NewConstantBackOff(20*time.Millisecond)),
	}
	for _, endpoint := range endpoints {
		options = append(options, client.WithEndpoint(endpoint))
	}
	s := &session{Client: must(client.NewOVSDBClient(things, options...)), names: map[string]string{}, turns: map[string]int{}}
	check(s.Connect(limited()))
	s.Cache().AddEventHandler(&cache.EventHandlerFuncs{
		AddFunc:    func(_ string, row model.Model) { s.note("+", nil, row) },
		UpdateFunc: func(_ string, before, after model.Model) { s.note("~", before, after) },
		DeleteFunc: func(_ string, row model.Model) { s.note("-", nil, row) },
	})
	return s
}

// limited is a context that ends with a step's time.
func limited() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	time.AfterFunc(stepTimeout, cancel)
	return ctx
}

// monitorAll monitors all columns of all tables, since the transaction that the client knows.
func (s *session) monitorAll() {
	must(s.Monitor(limited(), s.NewMonitor(
		client.WithTable(&Thing{}), client.WithTable(&Part{}), client.WithTable(&Turn{}),
	)))
}

// note records an event. Of an update it shows the fields that differ.
func (s *session) note(kind string, before, after model.Model) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch row := after.(type) {
	case *Turn:
		s.turns[row.UUID] = row.Number
		return
	case *Thing:
		s.names[row.UUID] = row.Name
	case *Part:
		s.names[row.UUID] = row.Name
	}
	s.events = append(s.events, kind+" "+shown(before, after))
}

// shown prints the fields of a row that are not empty, or that differ from those before.
func shown(before, after model.Model) string {
	row := reflect.ValueOf(after).Elem()
	text := []string{row.Type().Name(), row.FieldByName("UUID").String()}
	for i := 1; i < row.NumField(); i++ {
		name, value := row.Type().Field(i).Name, sorted(row.Field(i))
		isShown := !row.Field(i).IsZero()
		if before != nil {
			old := sorted(reflect.ValueOf(before).Elem().Field(i))
			if isShown = old != value; isShown {
				value = old + " -> " + value
			}
		}
		if isShown {
			text = append(text, name+"="+value)
		}
	}
	return strings.Join(text, " ")
}

// sorted prints a field. The order of a set's elements says nothing.
func sorted(field reflect.Value) string {
	switch {
	case field.Kind() == reflect.Pointer && field.IsNil():
		return "none"
	case field.Kind() == reflect.Pointer:
		return fmt.Sprintf("some(%v)", field.Elem())
	case field.Kind() == reflect.Slice:
		elements := make([]string, field.Len())
		for i := range elements {
			elements[i] = fmt.Sprint(field.Index(i))
		}
		sort.Strings(elements)
		return fmt.Sprint(elements)
	default:
		return fmt.Sprint(field)
	}
}

// settle returns the events until now, sorted, with names in place of UUIDs: it changes the turn,
// and waits until the client has seen that.
func (s *session) settle() []string {
	s.number++
	if s.own == "" {
		s.own = s.transact(must(s.Create(&Turn{Number: s.number})))[0].UUID.GoUUID
	} else {
		row := &Turn{UUID: s.own, Number: s.number}
		s.transact(must(s.Where(row).Update(row, &row.Number)))
	}
	until("the turn", func() bool {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		return s.turns[s.own] == s.number
	})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	events := s.named(s.events)
	s.events = nil
	sort.Strings(events)
	return events
}

// named replaces UUIDs by the names of their rows.
func (s *session) named(lines []string) []string {
	named := make([]string, len(lines))
	for i, line := range lines {
		named[i] = uuids.ReplaceAllStringFunc(line, func(uuid string) string { return "<" + s.names[uuid] + ">" })
	}
	return named
}

// transact commits operations, which must succeed.
func (s *session) transact(operations []ovsdb.Operation) []ovsdb.OperationResult {
	results := must(s.Transact(limited(), operations...))
	must(ovsdb.CheckOperationResults(results, operations))
	return results
}

// try prints the results of operations and their events.
func (s *session) try(what string, operations ...ovsdb.Operation) {
	fmt.Printf("-- %s\n", what)
	results, err := s.Transact(limited(), operations...)
	if err != nil {
		fmt.Println("error:", err)
	}
	for _, result := range results {
		line := fmt.Sprintf("count=%d error=%q details=%q", result.Count, result.Error, result.Details)
		rows := []string{}
		for _, row := range result.Rows {
			rows = append(rows, fmt.Sprint(row))
		}
		sort.Strings(rows)
		s.mutex.Lock()
		line = s.named([]string{line + strings.Join(append([]string{""}, rows...), "\n   ")})[0]
		s.mutex.Unlock()
		fmt.Println(line)
	}
	for _, event := range s.settle() {
		fmt.Println(event)
	}
}

// until waits for a state.
func until(what string, holds func() bool) {
	for deadline := time.Now().Add(stepTimeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic("it did not come to this: " + what)
		}
	}
}

// clear deletes all rows.
func (s *session) clear() {
	s.transact([]ovsdb.Operation{
		{Op: ovsdb.OperationDelete, Table: "Thing", Where: everyRow},
		{Op: ovsdb.OperationDelete, Table: "Turn", Where: everyRow},
	})
	s.Close()
}
