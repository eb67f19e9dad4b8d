import type { TrafficLimit } from '../../../proto/gen/berth/agent/v1/guest.js'

/** Used part of the quota in percent, with two decimals. It exceeds 100 if more than the quota was used. */
export function usedPercent({ mode, monthlyGb, inGb, outGb }: TrafficLimit, rx: number, tx: number): number {
  const percent = (usedBytes: number, quotaGb: number): number =>
    quotaGb === 0 ? 0 : Math.round(usedBytes / quotaGb / 1e5) / 100
  if (mode !== 'split') return percent(rx + tx, monthlyGb)
  return Math.max(percent(rx, inGb), percent(tx, outGb))
}
