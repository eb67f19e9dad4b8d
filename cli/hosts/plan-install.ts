/* Texts about the installation of a new host, from its state in the API. */

/** The fields of a host in the API that show the progress of its installation. */
export interface NewHost {
  readonly id: string
  readonly name: string
  readonly status: string
  /** `none`, `valid` or `expired`. Missing if the gateway has an older version. */
  readonly join_token_status?: string
  /** Last reported step; null: the host has not reported anything. */
  readonly install: { readonly step: string; readonly message: string; readonly at: string } | null
}

/** The answer to a request for a new command. */
export interface InstallCommand {
  readonly command: string
  readonly expires_at: string
  readonly join_address: string
  readonly join_local_only: boolean
}

/** The steps in order. `now` describes a step, `reached` reports what is done when the step begins. */
const steps: Readonly<Record<string, { readonly now: string; readonly reached: string }>> = {
  command: { now: 'waiting for the command to be run on the host', reached: '' },
  checking: { now: 'checking the host', reached: 'the command was started' },
  installing: { now: 'installing the agent', reached: 'the host meets the requirements' },
  joining: { now: 'joining the fleet', reached: 'the agent is installed' },
  waiting: { now: 'the gateway is connecting to the agent', reached: 'the agent has joined' },
  online: { now: 'online', reached: 'the gateway has reached the agent' },
}
const names = Object.keys(steps)

/**
 * Returns the present step: one of `steps`, or `failed`.
 * @param earlier the host before this attempt, whose report is ignored; undefined: no report is ignored
 */
export function installStepOf({ status, install }: NewHost, earlier?: NewHost): string {
  if (status === 'online') return 'online'
  if (install && JSON.stringify(install) !== JSON.stringify(earlier?.install)) return install.step
  return status === 'offline' && earlier?.status !== 'offline' ? 'waiting' : 'command'
}

/** Steps in which the host still needs a valid token. */
const beforeJoin = new Set(['command', 'checking', 'installing', 'joining'])

/**
 * True if the command has expired, so that the host can no longer join with it.
 * @param step the present step
 * @param isOver true if the command has probably expired, for gateways that do not report it
 */
export function hasExpired({ join_token_status: status }: NewHost, step: string, isOver: boolean): boolean {
  return status === undefined ? isOver && step === 'command' : status === 'expired' && beforeJoin.has(step)
}

/** Returns one line with the present step. */
export function installProgress(step: string, { install }: NewHost): string {
  const details = install?.step === step ? install.message : ''
  const text = [steps[step]?.now ?? step, details].filter(Boolean).join(': ')
  return `${text} (step ${names.indexOf(step) + 1} of ${names.length - 1})`
}

/** Returns a line about a step that has begun since the earlier one; undefined: there is nothing new. */
export function installNews(before: string | undefined, after: string): string | undefined {
  if (before === undefined || names.indexOf(after) <= names.indexOf(before)) return undefined
  return steps[after]?.reached
}

/** Returns what the user has to know in order to run the command on the new host. */
export function commandNotes(name: string, { expires_at, join_address, join_local_only }: InstallCommand): string[] {
  return [
    `Run this command as root on ${name}. It is valid until ${expires_at}.`,
    ...(join_local_only
      ? [
          `Only the machine of the gateway can reach ${join_address}. For other hosts, set join_listen or join_address in`,
          'gateway.yaml, restart the gateway, and create another command.',
        ]
      : []),
  ]
}
