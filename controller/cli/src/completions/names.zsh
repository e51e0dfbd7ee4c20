
# Names of the source on the command line: pods, networks, nodes, switches and routers.
_patchbay_names() {
    local -a names
    case "${words[CURRENT-1]}" in
        (--from|--to|--path|--pod|--network|--zone|--switch|--router|pod|pods|po|udn|cudn)
            names=(${(f)"$("${words[1]}" complete-names "${words[CURRENT-1]}" "${(j: :)words}" 2>/dev/null)"})
            if (( ${#names} )); then
                compadd -a names
                return
            fi
            ;;
    esac
    _patchbay "$@"
}
compdef _patchbay_names patchbay
