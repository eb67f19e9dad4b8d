import { usageError } from '../errors.js'

/* Completion for shells. The scripts call the program itself for completions, so they are never out of date. */

const scripts: Readonly<Record<string, string>> = {
  bash: `# Load it with: source <(berth completion bash)
_berth() {
  local line="\${COMP_LINE:0:COMP_POINT}" words
  read -ra words <<< "$line"
  [[ "$line" == *[[:space:]] ]] && words+=('')
  mapfile -t COMPREPLY < <(compgen -W "$(berth complete -- "\${words[@]:1}" 2>/dev/null)" -- "\${words[-1]}")
}
complete -o default -F _berth berth
`,
  zsh: `#compdef berth
# Load it with: source <(berth completion zsh)
_berth() {
  local -a found
  found=("\${(@f)$(berth complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  compadd -- "\${found[@]}"
}
if [[ "\${funcstack[1]}" == _berth ]]; then _berth; else compdef _berth berth; fi
`,
  fish: `# Load it with: berth completion fish | source
complete -c berth -f -a '(berth complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null)'
`,
}

export function completionScript(shell: string): string {
  const script = Object.hasOwn(scripts, shell) ? scripts[shell] : undefined
  if (script !== undefined) return script
  throw usageError(`${shell}: must be one of ${Object.keys(scripts).join(', ')}`)
}
