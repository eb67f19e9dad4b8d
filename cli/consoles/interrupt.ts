/** Calls `run` with an `AbortSignal`, which is aborted by Ctrl-C, SIGTERM or SIGHUP. */
export async function withInterrupt<Result>(run: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
  const controller = new AbortController()
  const abort = (): void => controller.abort()
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
  for (const signal of signals) process.on(signal, abort)
  try {
    return await run(controller.signal)
  } finally {
    for (const signal of signals) process.off(signal, abort)
  }
}
