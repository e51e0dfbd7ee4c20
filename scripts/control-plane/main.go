// A program of Kubernetes' API server, controller manager and kubectl, for tests: the first argument
// is the name of one of them.
package main

import (
	"os"
	_ "time/tzdata" // rules of resources read time zones, which a container may lack

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	manager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
)

func main() {
	programs := &cobra.Command{Use: "kube"}
	programs.AddCommand(
		apiserver.NewAPIServerCommand(), manager.NewControllerManagerCommand(), kubectl.NewDefaultKubectlCommand(),
	)
	os.Exit(cli.Run(programs))
}
