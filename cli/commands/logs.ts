import { usageError } from '../errors.js'
import type { GlobalOptions } from '../session.js'
import type { Surroundings } from '../surroundings.js'
import { runRun } from './run.js'

export interface LogsRun {
  readonly guest: string
  /** Name of a unit of systemd; undefined: all messages. */
  readonly unit: string | undefined
  readonly lines: string
  readonly isFollowed: boolean
  readonly options: GlobalOptions
  readonly surroundings: Surroundings
}

/** Prints the systemd journal, or else the file of syslog. Arguments: number of lines, "-f" or "", unit or "". */
const script = `if command -v journalctl >/dev/null; then exec journalctl -q --no-pager -n "$1" $2 \${3:+-u "$3"}; fi
[ -z "$3" ] || { echo 'the container has no journal of systemd' >&2; exit 1; }
for file in /var/log/messages /var/log/syslog; do [ ! -e "$file" ] || exec tail -n "$1" $2 "$file"; done
echo 'the container has neither a journal of systemd nor a file of syslog' >&2
exit 1`

/** Prints the newest messages of the log in a container, and ends with the exit code of the program that reads it. */
export async function runLogs({ guest, unit = '', lines, isFollowed, options, surroundings }: LogsRun): Promise<void> {
  if (!/^\d{1,9}$/.test(lines)) throw usageError(`--lines: ${lines} must be a number`)
  const command = ['sh', '-c', script, 'sh', lines, isFollowed ? '-f' : '', unit]
  await runRun({ guest, command, hasInput: false, isFiltered: true, options, surroundings })
}
