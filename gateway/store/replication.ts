export interface Replication {
  readonly replicas: number
  /** Bytes of changes that the slowest replica has not confirmed. 0: all are confirmed, or no replica is connected. */
  readonly lagBytes: number
}

/**
 * Reads the section `replication` of INFO. A replica is a line
 * `slave0:ip=192.0.2.2,port=6379,state=online,offset=1234,lag=0`.
 * Source: https://redis.io/docs/latest/commands/info/
 */
export function parseReplication(info: string): Replication {
  const master = Number(/^master_repl_offset:(\d+)/m.exec(info)?.[1] ?? 0)
  const offsets = [...info.matchAll(/^slave\d+:.*state=online,offset=(\d+)/gm)].map(([, offset]) => Number(offset))
  const lags = offsets.map((offset) => Math.max(0, master - offset))
  return { replicas: offsets.length, lagBytes: Math.max(0, ...lags) }
}
