/** Load averages over 1, 5 and 15 minutes. */
export type Load = readonly [number, number, number]

/**
 * Computes the next load averages like the kernel (kernel/sched/loadavg.c), with exponential damping:
 * old · e^(-Δt/T) + runnable · (1 - e^(-Δt/T)). Δt is `elapsedMs`, and T is 1, 5 or 15 minutes.
 */
export function nextLoad(load: Load, runnable: number, elapsedMs: number): Load {
  const damp = (old: number, minutes: number): number => {
    const keep = Math.exp(-elapsedMs / (minutes * 60_000))
    return old * keep + runnable * (1 - keep)
  }
  return [damp(load[0], 1), damp(load[1], 5), damp(load[2], 15)]
}
