import type { ConnectOutcome } from '../../host/guest/guest-probe.js'
import type { ListeningSocket } from '../../host/net/listening-ports.js'

/** Facts about a guest and the path to one of its ports. */
export interface ConnectionFacts {
  readonly port: number
  /** Reason why the guest is not allowed to run, as in `policyReasonOf`; undefined if it is allowed to run. */
  readonly blockedBy?: 'suspended' | 'expired' | 'traffic_used_up' | 'stopped_for_abuse'
  readonly throttled: boolean
  readonly running: boolean
  /** Listening sockets; undefined if the host cannot see them, for example those of a virtual machine. */
  readonly listeners: readonly ListeningSocket[] | undefined
  /** Address for clients: the guest's public address or a mapping's address. `isThere`: the host has this address. */
  readonly outside: { readonly address: string; readonly isThere: boolean } | undefined
  /**
   * True if the guest's firewall drops packets from this source. `caller`: the client. `hostInside`: the host, at the
   * guest's internal address. `hostOutside`: the host, at `outside.address`.
   */
  readonly drops: { readonly caller: boolean; readonly hostInside: boolean; readonly hostOutside: boolean }
  /** Results of connection attempts. Undefined: there was no attempt, because its result would prove nothing. */
  readonly inside?: ConnectOutcome | undefined
  readonly through?: ConnectOutcome | undefined
}

export type StepName = 'allowed' | 'running' | 'listening' | 'mapping' | 'firewall' | 'guest' | 'connection'
export type StepState = 'ok' | 'failed' | 'skipped'

/** A step of the diagnosis. `code` is the reason for its state; empty if the step is ok without restrictions. */
export interface ConnectionStep {
  readonly name: StepName
  readonly state: StepState
  readonly code: string
}

type Verdict = readonly [state: StepState, code: string]
const ok: Verdict = ['ok', '']
const failed = (code: string): Verdict => ['failed', code]
const skipped = (code: string): Verdict => ['skipped', code]
const notReached = skipped('earlier_step_failed')

/**
 * True if a connection to the guest's own address should be tried. This makes sense if the guest runs, its firewall
 * admits the host, and a program could be listening on the port.
 */
export function triesInside(facts: ConnectionFacts): boolean {
  if (!facts.running || facts.drops.hostInside) return false
  return (
    facts.listeners === undefined || facts.listeners.some(({ port, isReachable }) => port === facts.port && isReachable)
  )
}

/** True if a connection through the mapping should be tried, because no known fact would make it fail. */
export function triesThrough(facts: ConnectionFacts): boolean {
  const { outside, drops, inside } = facts
  return facts.running && outside?.isThere === true && !drops.hostOutside && (drops.hostInside || inside === 'open')
}

/** Evaluates the facts step by step, from the guest outwards. */
export function planDiagnosis(facts: ConnectionFacts): ConnectionStep[] {
  const verdicts: Readonly<Record<StepName, Verdict>> = {
    allowed: judgeAllowed(facts),
    running: facts.running ? ok : failed('not_running'),
    listening: judgeListening(facts),
    mapping: judgeMapping(facts),
    firewall: facts.drops.caller ? failed('firewall_drops') : ok,
    guest: judgeInside(facts),
    connection: judgeThrough(facts),
  }
  return Object.entries(verdicts).map(([name, [state, code]]) => ({ name: name as StepName, state, code }))
}

function judgeAllowed({ blockedBy, throttled }: ConnectionFacts): Verdict {
  if (blockedBy) return failed(blockedBy)
  return throttled ? ['ok', 'throttled'] : ok
}

function judgeListening({ running, listeners, port, inside }: ConnectionFacts): Verdict {
  if (!running) return notReached
  if (!listeners)
    return inside === 'open' ? ok : inside === 'refused' ? failed('nothing_listens') : skipped('not_visible')
  const those = listeners.filter((one) => one.port === port)
  if (those.length === 0) return failed('nothing_listens')
  return those.some(({ isReachable }) => isReachable) ? ok : failed('listens_on_loopback')
}

function judgeMapping({ outside }: ConnectionFacts): Verdict {
  if (!outside) return failed('no_mapping')
  return outside.isThere ? ok : failed('address_missing')
}

function judgeInside({ listeners, drops, inside, running }: ConnectionFacts): Verdict {
  if (inside === 'open') return ok
  if (inside === 'silent') return failed('guest_silent')
  if (inside === 'refused') return listeners ? failed('guest_refuses') : notReached
  return running && drops.hostInside ? skipped('host_not_let_in') : notReached
}

function judgeThrough({ running, drops, through }: ConnectionFacts): Verdict {
  if (through !== undefined) return through === 'open' ? ok : failed('not_forwarded')
  return running && drops.hostOutside ? skipped('host_not_let_in') : notReached
}
