/** Steps of an upgrade, reported by the installation script; `starting`: the script has not reported any step yet. */
export const upgradeSteps = [
  'starting',
  'checking',
  'downloading',
  'installing',
  'waiting',
  'rolling_back',
  'done',
  'failed',
] as const
export type UpgradeStep = (typeof upgradeSteps)[number]

/** The last upgrade or rollback of a host's agent that the gateway has started. */
export interface HostUpgrade {
  readonly id: string
  readonly from: string
  readonly to: string
  readonly rollback: boolean
  readonly step: UpgradeStep
  /** Reason of a failure or of a return to the earlier version. */
  readonly message: string
  readonly startedAtMs: number
  /** Time of the last report in ms since 1970. */
  readonly atMs: number
}

export type UpgradeState = 'running' | 'done' | 'failed'

export function upgradeStateOf({ step }: HostUpgrade): UpgradeState {
  return step === 'done' || step === 'failed' ? step : 'running'
}

const silence = { startingMs: 3 * 60_000, otherMs: 30 * 60_000 }

/** True if the host has not reported for so long that the installation has probably ended. */
export function isSilent(upgrade: HostUpgrade, nowMs: number): boolean {
  if (upgradeStateOf(upgrade) !== 'running') return false
  return nowMs - upgrade.atMs > (upgrade.step === 'starting' ? silence.startingMs : silence.otherMs)
}

/** Applies a report of the installation script. Ignores reports about another upgrade, and reports after the end. */
export function reportedUpgrade(
  known: HostUpgrade | undefined,
  { id, step, message, atMs }: Pick<HostUpgrade, 'id' | 'step' | 'message' | 'atMs'>,
): HostUpgrade | undefined {
  if (known?.id !== id || upgradeStateOf(known) !== 'running') return known
  // During a rollback, all later steps keep the state `rolling_back`. A step without a reason keeps the earlier reason.
  return {
    ...known,
    step: known.step === 'rolling_back' && !isEnd(step) ? known.step : step,
    message: message || known.message,
    atMs,
  }
}

function isEnd(step: UpgradeStep): boolean {
  return step === 'done' || step === 'failed'
}
