import { createInterface } from 'node:readline'
import { NetlinkWatch } from '../../../agent/host/net/netlink-watch.js'
import type { GuestRates } from '../../../agent/network/contract.js'
import { createShaper, type HostShaper } from '../../../agent/network/shaping/shaping.js'
import { describeError } from '../../../shared/errors.js'

/*
 * The traffic shaper of an agent as a process that a test can run inside a network namespace. Arguments: the prefix of
 * guests' interfaces, and optionally `watch` or `follow`. With `watch` or `follow`, the shaper notices changes by other
 * programs, and `ensure` compares everything only after such changes. With `follow`, it also compares when interfaces
 * appear or disappear. Input lines: {method, argument}; output lines: {result} or {error}. As in the agent, `ensure`
 * gets the same list object as long as its content is the same.
 */

const [, , prefix = '', watches] = process.argv
const names = { table: 'none', bridge: 'none', interface_prefix: prefix }
const watch = watches === 'watch' || watches === 'follow' ? new NetlinkWatch(names) : undefined
const shaper = createShaper(prefix, watch)

let before: unknown
if (watches === 'follow') shaper.onLinks(() => void shaper.ensure(before as GuestRates[]))
function sameAsBefore<T>(argument: T): T {
  if (JSON.stringify(argument) === JSON.stringify(before)) return before as T
  before = argument
  return argument
}

for await (const line of createInterface({ input: process.stdin })) {
  const { method, argument } = JSON.parse(line) as {
    method: Exclude<keyof HostShaper, 'onLinks'>
    argument: never
  }
  const answer = await shaper[method](sameAsBefore(argument)).then(
    (result) => ({ result: result ?? null }),
    (error: unknown) => ({ error: describeError(error) }),
  )
  process.stdout.write(`${JSON.stringify(answer)}\n`)
}
watch?.close()
