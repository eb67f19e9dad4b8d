/** Ranges of the settings of a warm standby. */
export const standbyLimits = {
  intervalMinutes: { min: 1, max: 1440 },
  /** Mbit/s; 0: unlimited. */
  bandwidthMbps: { min: 0, max: 1_000_000 },
} as const

export const usualStandbyMinutes = 5
