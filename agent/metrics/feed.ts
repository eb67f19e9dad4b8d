import type { HostMetrics } from '../../proto/gen/berth/agent/v1/host.js'

/** Provides the host's latest sample, and passes each new one to listeners. */
export class MetricsFeed {
  latest: HostMetrics | undefined
  readonly #listeners = new Set<(metrics: HostMetrics) => void>()

  publish(metrics: HostMetrics): void {
    this.latest = metrics
    for (const listener of this.#listeners) listener(metrics)
  }

  listen(listener: (metrics: HostMetrics) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }
}
