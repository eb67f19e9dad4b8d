main() {
  token=''
  case ${1:-${BERTH_JOIN_TOKEN:-}} in
    --uninstall) uninstall ;;
    --upgrade | --rollback) upgrade "$1" "${2:?the directory of the order is missing}" ;;
    --resume) resume ;;
    berth_jt_*)
      token=${1:-$BERTH_JOIN_TOKEN}
      unset BERTH_JOIN_TOKEN
      install_agent
      ;;
    *) fail 'the join token is missing: copy the complete command from the panel or from POST /hosts' ;;
  esac
}

main "$@"
