package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/ovn-kubernetes/libovsdb/cache"
	"github.com/ovn-kubernetes/libovsdb/model"
	"github.com/ovn-kubernetes/libovsdb/ovsdb"
)

const (
	// writers of transactions at the same time.
	writers = 4
	// transactionsPerWriter each change two rows.
	transactionsPerWriter = 50
	// manyThings is the number of rows of a large database.
	manyThings = 10000
	// thingsPerTransaction is the number of rows that are inserted at once.
	thingsPerTransaction = 1000
)

// order commits transactions of several clients at the same time. Each counts up in its own turn and
// creates a row. Others never see a turn go back, and end with the same rows. A server may send several
// transactions in one message, whose events have no order.
func order(remote string) {
	observers := []*session{open(false, remote), open(false, remote)}
	var backwards atomic.Int32
	for _, observer := range observers {
		observer.Cache().AddEventHandler(&cache.EventHandlerFuncs{
			UpdateFunc: func(_ string, before, after model.Model) {
				old, isTurn := before.(*Turn)
				if isTurn && after.(*Turn).Number <= old.Number {
					backwards.Add(1)
				}
			},
		})
		observer.monitorAll()
	}
	var running sync.WaitGroup
	for w := range writers {
		running.Add(1)
		go func() {
			defer running.Done()
			writer := open(false, remote)
			defer writer.Close()
			turn := &Turn{UUID: writer.transact(must(writer.Create(&Turn{Number: -1})))[0].UUID.GoUUID}
			for turn.Number = 1; turn.Number <= transactionsPerWriter; turn.Number++ {
				thing := &Thing{Name: fmt.Sprintf("w%d-%03d", w, turn.Number), Level: "low"}
				// The cache, which these conditions do not need, has no rows.
				where := []ovsdb.Condition{ovsdb.NewCondition("_uuid", ovsdb.ConditionEqual, ovsdb.UUID{GoUUID: turn.UUID})}
				count := ovsdb.Operation{
					Op: ovsdb.OperationUpdate, Table: "Turn", Where: where, Row: ovsdb.Row{"number": turn.Number},
				}
				writer.transact(append(must(writer.Create(thing)), count))
			}
		}()
	}
	running.Wait()
	for _, observer := range observers {
		events := observer.settle()
		fmt.Println("events:", len(events), events[0], events[len(events)-1])
	}
	fmt.Println("turns that went back:", backwards.Load())
	observers[1].Close()
	observers[0].clear()
}

// relay passes connections on to a server, until it is cut.
type relay struct {
	remote   string
	listener net.Listener
	mutex    sync.Mutex
	open     []net.Conn
}

// newRelay listens at a path and connects to the path of a remote.
func newRelay(path, remote string) *relay {
	r := &relay{remote: "unix:" + path, listener: must(net.Listen("unix", path))}
	go func() {
		for {
			incoming, err := r.listener.Accept()
			if err != nil {
				return
			}
			outgoing := must(net.Dial("unix", strings.TrimPrefix(remote, "unix:")))
			r.mutex.Lock()
			r.open = append(r.open, incoming, outgoing)
			r.mutex.Unlock()
			for _, pair := range [][2]net.Conn{{incoming, outgoing}, {outgoing, incoming}} {
				go func() {
					// A copy ends when one side is closed; then the other one is, too.
					io.Copy(pair[0], pair[1])
					pair[0].Close()
				}()
			}
		}
	}()
	return r
}

// cut closes all connections and accepts no other one.
func (r *relay) cut() {
	r.listener.Close()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for _, connection := range r.open {
		connection.Close()
	}
}

// since cuts a connection, changes rows meanwhile, and shows the events after the reconnect.
func since(remote string) {
	reconnected(remote, func(*session) {})
}

// secondEndpoint is the same with a transaction that the client begins while it is not connected.
func secondEndpoint(remote string) {
	reconnected(remote, func(s *session) {
		row := &Thing{Name: "kept", Integer: 9}
		operations := must(s.Where(row).Update(row, &row.Integer))
		// The client may not have noticed yet that the connection has ended.
		until("the transaction", func() bool {
			results, err := s.Transact(limited(), operations...)
			return err == nil && results[0].Error == ""
		})
	})
}

func reconnected(remote string, meanwhile func(*session)) {
	folder := must(os.MkdirTemp("", "relay"))
	defer os.RemoveAll(folder)
	first := newRelay(folder+"/1", remote)
	second := folder + "/2"
	s, writer := open(false, first.remote, "unix:"+second), open(false, remote)
	defer writer.clear()
	defer s.Close()
	s.monitorAll()
	writer.monitorAll()
	writer.transact(must(writer.Create(
		&Thing{Name: "kept", Level: "low"}, &Thing{Name: "changed", Level: "low"}, &Thing{Name: "gone", Level: "low"})))
	writer.settle()
	for _, event := range s.settle() {
		fmt.Println(event)
	}
	fmt.Println("at the first endpoint:", s.CurrentEndpoint() == first.remote)
	first.cut()
	changed, gone := &Thing{Name: "changed", Integer: 5}, &Thing{Name: "gone"}
	writer.transact(must(writer.Where(changed).Update(changed, &changed.Integer)))
	writer.transact(must(writer.Where(gone).Delete()))
	writer.transact(must(writer.Create(&Thing{Name: "new", Level: "high"})))
	newRelay(second, remote)
	meanwhile(s)
	until("the second endpoint", func() bool { return s.Connected() && s.CurrentEndpoint() == "unix:"+second })
	until("the cache is up to date", func() bool {
		return s.Get(limited(), &Thing{Name: "new"}) == nil && s.Get(limited(), &Thing{Name: "gone"}) != nil
	})
	for _, event := range s.settle() {
		fmt.Println(event)
	}
	rows := []Thing{}
	check(s.List(limited(), &rows))
	fmt.Println("rows:", len(rows))
}

// leaderOnly asks for the leader of a cluster, and for a standalone server.
func leaderOnly(remote string) {
	s := open(true, "unix:/nonexistent.sock", remote)
	s.monitorAll()
	defer s.clear()
	fmt.Println("connected to the leader:", s.CurrentEndpoint() == remote)
	s.try("a row", must(s.Create(&Thing{Name: "one", Level: "low"}))...)
}

func manyRows(remote string) {
	writer := open(false, remote)
	writer.monitorAll()
	defer writer.clear()
	for begin := 0; begin < manyThings; begin += thingsPerTransaction {
		rows := []model.Model{}
		for i := begin; i < begin+thingsPerTransaction; i++ {
			rows = append(rows, &Thing{Name: fmt.Sprint(i), Level: "low", Pairs: map[string]string{"owner": fmt.Sprint(i % 10)}})
		}
		writer.transact(must(writer.Create(rows...)))
	}
	fmt.Println("events of inserts:", len(writer.settle()))
	s := open(false, remote)
	defer s.Close()
	s.monitorAll()
	fmt.Println("events of the initial rows:", len(s.settle()))
	owned := []Thing{}
	check(s.Where(&Thing{Pairs: map[string]string{"owner": "3"}}).List(limited(), &owned))
	fmt.Println("rows of an owner:", len(owned))
	all := ovsdb.Operation{
		Op: ovsdb.OperationMutate, Table: "Thing", Where: everyRow,
		Mutations: []ovsdb.Mutation{*ovsdb.NewMutation("integer", ovsdb.MutateOperationAdd, 1)},
	}
	fmt.Println("rows of a mutation:", writer.transact([]ovsdb.Operation{all})[0].Count)
	writer.settle()
	fmt.Println("events of the mutation:", len(s.settle()))
	odd := &Thing{Pairs: map[string]string{"owner": "3"}}
	writer.transact(must(writer.Where(odd).Delete()))
	writer.settle()
	fmt.Println("events of deletes:", len(s.settle()))
}
