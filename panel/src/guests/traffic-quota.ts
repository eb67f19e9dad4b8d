import type { TrafficUsage } from '../api/types.ts'

/** Traffic that counts towards one quota. */
export interface QuotaUse {
  readonly traffic: 'total' | 'received' | 'sent'
  readonly usedBytes: number
  /** Quota in GB (10^9 bytes). 0: unlimited. */
  readonly limitGb: number
}

/** Returns the traffic of each quota of a guest. Empty: the guest has no quota. */
export function quotaUses(now: TrafficUsage): QuotaUse[] {
  if (now.mode === 'total')
    return now.limit_gb > 0 ? [{ traffic: 'total', usedBytes: now.total_used_bytes, limitGb: now.limit_gb }] : []
  if (now.in_limit_gb === 0 && now.out_limit_gb === 0) return []
  return [
    { traffic: 'received', usedBytes: now.rx_used_bytes, limitGb: now.in_limit_gb },
    { traffic: 'sent', usedBytes: now.tx_used_bytes, limitGb: now.out_limit_gb },
  ]
}

/** Percentage of a quota from which its user gets a warning. */
const warningPercent = 80

/**
 * Returns the percentage to warn of, without decimals. Undefined: there is no quota, or no reason for a warning. If the
 * guest is stopped because its quota is used up, the banner of blocked guests says so.
 */
export function quotaWarning(now: TrafficUsage): number | undefined {
  const percent = Math.floor(now.used_pct)
  if (quotaUses(now).length === 0 || percent < warningPercent) return undefined
  return percent >= 100 && now.action === 'stop' ? undefined : percent
}
