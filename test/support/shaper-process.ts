import { createInterface } from 'node:readline'
import { createShaper, type HostShaper } from '../../agent/network/shaping/shaping.js'
import { describeError } from '../../shared/errors.js'

/*
 * The rates of an agent as a process of its own, so that a test can run it inside a network namespace.
 * Argument: the prefix of guests' interfaces. Lines in: {method, argument}; lines out: {result} or {error}.
 */

const shaper = createShaper(process.argv[2] ?? '')

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as { method: keyof HostShaper; argument: never }
  const answer = await shaper[method](argument).then(
    (result) => ({ result: result ?? null }),
    (error: unknown) => ({ error: describeError(error) }),
  )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
