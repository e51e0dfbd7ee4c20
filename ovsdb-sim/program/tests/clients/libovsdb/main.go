// libovsdb, the client inside OVN-Kubernetes, on one server: prints results and events, which must
// be the same for all servers. UUIDs are replaced by the names of rows.
//
//	libovsdb REMOTE    (unix:PATH, a database with the schema in things.ovsschema)
package main

import (
	"fmt"
	"os"
)

func main() {
	remote := os.Args[1]
	for _, scenario := range []struct {
		name string
		run  func(string)
	}{
		{"types and operations", typesAndOperations},
		{"indexes of the cache", indexes},
		{"conditions of monitors", conditions},
		{"order of transactions", order},
		{"monitors since a transaction", since},
		{"a second endpoint", secondEndpoint},
		{"the leader only", leaderOnly},
		{"10,000 rows", manyRows},
	} {
		fmt.Printf("== %s\n", scenario.name)
		scenario.run(remote)
	}
}

// must returns a value, or ends the program with the error.
func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
