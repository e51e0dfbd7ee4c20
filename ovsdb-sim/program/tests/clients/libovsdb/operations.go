package main

import (
	"fmt"
	"sort"

	"github.com/ovn-kubernetes/libovsdb/client"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const identifier = "2f77b348-9768-4866-b761-89d5177ecda0"

// full is a row with a value in each column.
func full(name string) *Thing {
	text, integer, real, boolean := "", 0, 0.25, false
	return &Thing{
		UUID: "new_" + name, Name: name, Integer: -7, Real: 1.5e10, Boolean: true, Identifier: identifier, Level: "high",
		MaybeText: &text, MaybeInteger: &integer, MaybeReal: &real, MaybeBoolean: &boolean,
		Texts: []string{"b", "a", "\u00fc\n\""}, Integers: []int{3, -1}, Reals: []float64{0.5, -2},
		Identifiers: []string{identifier},
		Pairs:       map[string]string{"owner": name, "": "empty"}, Counts: map[string]int{"one": 1},
		Names: map[int]string{-1: "minus"},
	}
}

func typesAndOperations(remote string) {
	s := open(false, remote)
	s.monitorAll()
	defer s.clear()

	s.try("all types", must(s.Create(full("full"), &Thing{Name: "empty", Level: "low"}))...)
	part := &Part{UUID: "new_part", Name: "part"}
	whole := &Thing{
		UUID: "new_whole", Name: "whole", Level: "low",
		Parts: []string{part.UUID}, NamedParts: map[string]string{"p": part.UUID}, Friends: []string{"new_whole"},
	}
	s.try("named UUIDs", append(must(s.Create(part)), must(s.Create(whole))...)...)
	row := &Thing{Name: "full"}
	check(s.Get(limited(), row))
	friend := &Thing{Name: "empty"}
	check(s.Get(limited(), friend))
	s.try("a weak reference", must(s.Where(row).Mutate(row,
		model.Mutation{Field: &row.Friends, Mutator: ovsdb.MutateOperationInsert, Value: []string{friend.UUID}}))...)

	s.try("arithmetic", must(s.Where(row).Mutate(row,
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationAdd, Value: 9},
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationMultiply, Value: 21},
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationSubtract, Value: 1},
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationDivide, Value: 2},
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationModulo, Value: 8},
		model.Mutation{Field: &row.Real, Mutator: ovsdb.MutateOperationDivide, Value: 4.0},
	))...)
	s.try("elements", must(s.Where(row).Mutate(row,
		model.Mutation{Field: &row.Texts, Mutator: ovsdb.MutateOperationInsert, Value: []string{"c", "a"}},
		model.Mutation{Field: &row.Texts, Mutator: ovsdb.MutateOperationDelete, Value: []string{"b"}},
		model.Mutation{Field: &row.Pairs, Mutator: ovsdb.MutateOperationInsert, Value: map[string]string{"k": "v", "": "kept"}},
		model.Mutation{Field: &row.Counts, Mutator: ovsdb.MutateOperationDelete, Value: map[string]int{"one": 1}},
		model.Mutation{Field: &row.Names, Mutator: ovsdb.MutateOperationInsert, Value: map[int]string{7: "seven"}},
	))...)
	s.try("a division by zero", must(s.Where(row).Mutate(row,
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationDivide, Value: 0}))...)
	s.try("a value out of its range", must(s.Where(row).Mutate(row,
		model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationAdd, Value: 2000000}))...)

	row.MaybeText, row.MaybeInteger, row.MaybeReal, row.MaybeBoolean = nil, nil, nil, nil
	row.Texts, row.Integers, row.Pairs = nil, []int{5}, map[string]string{"owner": "nobody"}
	s.try("an update of some columns", must(s.Where(row).Update(row,
		&row.MaybeText, &row.MaybeInteger, &row.MaybeReal, &row.MaybeBoolean, &row.Texts, &row.Integers, &row.Pairs))...)
	s.try("an update without a change", must(s.Where(row).Update(row, &row.Integers))...)

	waits(s, row)
	s.try("select", ovsdb.Operation{Op: ovsdb.OperationSelect, Table: "Thing", Columns: []string{"name", "level", "integers"}})
	comment, durable, lock := "a comment", true, "some_lock"
	s.try("comment and commit",
		ovsdb.Operation{Op: ovsdb.OperationComment, Comment: &comment},
		ovsdb.Operation{Op: ovsdb.OperationCommit, Durable: &durable})
	s.try("assert without the lock", ovsdb.Operation{Op: ovsdb.OperationAssert, Lock: &lock})
	s.try("abort", append(must(s.Create(&Thing{Name: "never", Level: "low"})), ovsdb.Operation{Op: ovsdb.OperationAbort})...)
	s.try("a name twice", must(s.Create(&Thing{Name: "full", Level: "low"}))...)
	s.try("a level that does not exist", must(s.Create(&Thing{Name: "odd", Level: "medium"}))...)
	s.try("a part that does not exist", must(s.Create(&Thing{Name: "odd", Level: "low", Parts: []string{identifier}}))...)

	s.try("any of two conditions", must(s.WhereAny(row,
		model.Condition{Field: &row.Name, Function: ovsdb.ConditionEqual, Value: "whole"},
		model.Condition{Field: &row.Integer, Function: ovsdb.ConditionGreaterThan, Value: 0},
	).Mutate(row, model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationAdd, Value: 1}))...)
	s.try("all of two conditions", must(s.WhereAll(row,
		model.Condition{Field: &row.Boolean, Function: ovsdb.ConditionEqual, Value: false},
		model.Condition{Field: &row.Integer, Function: ovsdb.ConditionLessThanOrEqual, Value: 3},
	).Mutate(row, model.Mutation{Field: &row.Integer, Mutator: ovsdb.MutateOperationAdd, Value: 1}))...)
	s.try("the friend goes", must(s.Where(friend).Delete())...)
	gone := &Thing{Name: "whole"}
	check(s.Get(limited(), gone))
	s.try("the whole goes with its part", must(s.Where(gone).Delete())...)
}

// waits for values that are there, that are not, and that another session writes.
func waits(s *session, row *Thing) {
	none := 0
	s.try("a wait for what is so", must(s.Where(row).Wait(ovsdb.WaitConditionEqual, &none, row, &row.Level))...)
	other := *row
	other.Level = "low"
	s.try("a wait for what is not so", must(s.Where(row).Wait(ovsdb.WaitConditionEqual, &none, &other, &other.Level))...)
	s.try("a wait for a difference", must(s.Where(row).Wait(ovsdb.WaitConditionNotEqual, &none, &other, &other.Level))...)
	limit := int(stepTimeout.Milliseconds())
	waiting := make(chan []ovsdb.OperationResult)
	go func() {
		waiting <- must(s.Transact(limited(), must(s.Where(row).Wait(ovsdb.WaitConditionEqual, &limit, &other, &other.Level))...))
	}()
	s.try("the change that another transaction waits for", must(s.Where(row).Update(&other, &other.Level))...)
	fmt.Println("the waiting transaction:", (<-waiting)[0].Error == "")
}

func indexes(remote string) {
	s := open(false, remote)
	s.monitorAll()
	defer s.clear()
	rows := []model.Model{}
	for i, owner := range []string{"x", "y", "x"} {
		rows = append(rows, &Thing{Name: fmt.Sprint(i), Level: "low", Pairs: map[string]string{"owner": owner}})
	}
	s.try("rows", must(s.Create(rows...))...)
	print := func(what string, where client.ConditionalAPI) {
		found := []Thing{}
		check(where.List(limited(), &found))
		names := []string{}
		for _, row := range found {
			names = append(names, row.Name)
		}
		sort.Strings(names)
		fmt.Println(what, names)
	}
	print("by the schema's index:", s.Where(&Thing{Name: "1"}))
	print("by the client's index:", s.Where(&Thing{Pairs: map[string]string{"owner": "x"}}))
	print("by a function:", s.WhereCache(func(row *Thing) bool { return row.Pairs["owner"] == "y" }))
	owned := &Thing{Pairs: map[string]string{"owner": "x"}}
	moved := &Thing{Pairs: map[string]string{"owner": "z"}}
	s.try("an update by the client's index", must(s.Where(owned).Update(moved, &moved.Pairs))...)
	print("by the client's index:", s.Where(&Thing{Pairs: map[string]string{"owner": "x"}}))
	print("by the client's index:", s.Where(&Thing{Pairs: map[string]string{"owner": "z"}}))
}

func conditions(remote string) {
	s, writer := open(false, remote), open(false, remote)
	defer writer.clear()
	defer s.Close()
	row := &Thing{}
	must(s.Monitor(limited(), s.NewMonitor(client.WithTable(&Turn{}), client.WithConditionalTable(row,
		[]model.Condition{{Field: &row.Boolean, Function: ovsdb.ConditionEqual, Value: true}},
		&row.Name, &row.Boolean, &row.Integer))))
	writer.monitorAll()
	show := func(what string) {
		fmt.Printf("-- %s\n", what)
		writer.settle()
		for _, event := range s.settle() {
			fmt.Println(event)
		}
	}
	writer.transact(must(writer.Create(&Thing{Name: "one", Level: "low"}, &Thing{Name: "two", Level: "low", Boolean: true})))
	show("a row of two")
	one := &Thing{Name: "one"}
	choose := func(value bool) {
		one.Boolean = value
		writer.transact(must(writer.Where(one).Update(one, &one.Boolean)))
	}
	choose(true)
	show("a row that the condition selects now")
	writer.transact(must(writer.Where(one).Mutate(one, model.Mutation{
		Field: &one.Integer, Mutator: ovsdb.MutateOperationAdd, Value: 4})))
	show("a change of a monitored column")
	writer.transact(must(writer.Where(one).Mutate(one, model.Mutation{
		Field: &one.Texts, Mutator: ovsdb.MutateOperationInsert, Value: []string{"t"}})))
	show("a change of another column")
	choose(false)
	show("a row that the condition selects no more")
}
