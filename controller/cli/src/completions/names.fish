
# Names of the source on the command line: pods, networks, nodes, switches and routers.
for flag in from to path pod network zone switch router
    complete -c patchbay -l $flag -x -a "(patchbay complete-names --$flag (commandline -cp | string collect) 2>/dev/null)"
end
