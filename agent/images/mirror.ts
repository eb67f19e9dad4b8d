import { BerthError } from '../../shared/errors.js'
import { OutboundClient } from '../../shared/outbound-request.js'
import type { Recipe } from './catalog.js'

const timeoutMs = 20_000
const timeouts = { connectMs: timeoutMs, headersMs: timeoutMs, bodyMs: timeoutMs }

/** Lines of APT's sources.list from which an image is built. */
export type SourceLines = readonly string[]

/**
 * Finds the sources of a release: the mirror's main archive, and its updates and security updates if they exist.
 * Security updates can come from Debian's own server.
 * @param mirror URL of a Debian archive, for example http://deb.debian.org/debian
 * @throws {BerthError} `mirror_unreachable`, or `release_missing` if the mirror answers but does not have the release
 */
export async function findSources(entry: Recipe, mirror: string, signal: AbortSignal): Promise<SourceLines> {
  const base = mirror.replace(/\/+$/, '')
  const status = await probe(base, entry.suite, signal)
  if (status !== 200)
    throw new BerthError(
      'unavailable',
      'release_missing',
      `the mirror ${base} does not contain ${entry.suite} (HTTP status ${status})`,
    )
  const lines = [sourceLine(base, entry.suite)]
  if ((await probe(base, `${entry.suite}-updates`, signal)) === 200)
    lines.push(sourceLine(base, `${entry.suite}-updates`))
  const security = await findSecurity(base, `${entry.suite}-security`, signal)
  return security ? [...lines, sourceLine(security, `${entry.suite}-security`)] : lines
}

async function findSecurity(base: string, suite: string, signal: AbortSignal): Promise<string | undefined> {
  for (const candidate of [`${base}-security`, 'http://deb.debian.org/debian-security']) {
    const status = await probe(candidate, suite, signal).catch(() => 0)
    if (status === 200) return candidate
  }
  return undefined
}

async function probe(base: string, suite: string, signal: AbortSignal): Promise<number> {
  const client = new OutboundClient({ timeouts })
  try {
    const { status } = await client.follow(`${base}/dists/${suite}/InRelease`, {
      method: 'HEAD',
      headers: { 'user-agent': 'berth-agent' },
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    })
    return status
  } catch (cause) {
    signal.throwIfAborted()
    throw new BerthError('unavailable', 'mirror_unreachable', `the mirror ${base} cannot be reached`, { cause })
  } finally {
    client.close()
  }
}

function sourceLine(base: string, suite: string): string {
  return `deb ${base} ${suite} main`
}
