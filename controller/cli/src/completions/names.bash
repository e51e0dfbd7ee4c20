
# Names of the source on the command line: pods, networks, nodes, switches and routers.
_patchbay_names() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" name
    COMPREPLY=()
    case "$previous" in
        --from|--to|--path|--pod|--network|--zone|--switch|--router|pod|pods|po|udn|cudn)
            while IFS= read -r name; do
                [[ -n "$name" && "$name" == "$current"* ]] && COMPREPLY+=("$name")
            done < <("$1" complete-names "$previous" "$COMP_LINE" 2>/dev/null)
            [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
            ;;
    esac
    _patchbay "$@"
}
complete -F _patchbay_names -o bashdefault -o default patchbay
