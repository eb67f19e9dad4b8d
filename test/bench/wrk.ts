import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

export interface Load {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Number of responses other than 2xx and 3xx, and of broken connections. */
  readonly failed: number
}

/** Runs wrk with a number of connections. @returns its results */
export async function load(url: string, options: { key: string; connections: number; seconds: number }): Promise<Load> {
  const { key, connections, seconds } = options
  const args = ['-t1', `-c${connections}`, `-d${seconds}s`, '--timeout', '30s', '--latency']
  const { stdout } = await run('wrk', [...args, '-H', `X-API-Key: ${key}`, url])
  const [, rate] = /Requests\/sec:\s+([\d.]+)/.exec(stdout) ?? []
  if (rate === undefined) throw new Error(`wrk ${url}: ${stdout}`)
  const [, socketErrors = ''] = /Socket errors: (.*)/.exec(stdout) ?? []
  const broken = [...socketErrors.matchAll(/\d+/g)].reduce((sum, [count]) => sum + Number(count), 0)
  const failed = Number(/Non-2xx or 3xx responses: (\d+)/.exec(stdout)?.[1] ?? 0) + broken
  return { perSecond: Number(rate), p50Ms: percentile(stdout, 50), p99Ms: percentile(stdout, 99), failed }
}

function percentile(text: string, percent: number): number {
  const [, value, unit] = new RegExp(`^\\s*${percent}%\\s+([\\d.]+)(us|ms|s|m)$`, 'm').exec(text) ?? []
  return Number(value) * { us: 0.001, ms: 1, s: 1000, m: 60_000 }[unit as 'us' | 'ms' | 's' | 'm']
}
