import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { AgentConfigSchema } from '../../../agent/config.js'
import { LxcDriver } from '../../../agent/drivers/lxc/driver.js'
import { createRules } from '../../../agent/network/nft/rules.js'
import { createShaper } from '../../../agent/network/shaping/shaping.js'
import { validateConfig } from '../../../shared/config.js'
import type { Fault } from './faulty-agent.js'

/*
 * An agent that fails, waits or dies at the beginning of certain methods for a guest. These methods are in the file
 * faults.json next to the agent's configuration: `{"resize xab1": "kill"}`. The agent reads the file again at each
 * call.
 */

const faultsPath = join(dirname(process.argv.at(-1) ?? ''), 'faults.json')
const points: readonly (readonly [prototype: object, methods: readonly string[]])[] = [
  [LxcDriver.prototype, ['initialize', 'resize', 'assignAddresses', 'stop', 'delete']],
  [Object.getPrototypeOf(createRules(validateConfig(AgentConfigSchema, {}, 'test').network)), ['attach']],
  [Object.getPrototypeOf(createShaper('xx')), ['apply']],
]

type Method = (told: MachineArgument, ...rest: unknown[]) => Promise<unknown>
interface MachineArgument {
  readonly device?: string
  readonly nic?: { readonly device: string }
}

for (const [prototype, methods] of points)
  for (const name of methods) {
    const target = prototype as Record<string, Method>
    const method = target[name]!
    target[name] = async function (told, ...rest) {
      await meetFault(`${name} ${told.nic?.device ?? told.device}`)
      return method.call(this, told, ...rest)
    }
  }

async function meetFault(point: string): Promise<void> {
  for (;;) {
    const fault = readFaults()[point]
    if (fault === 'kill') process.kill(process.pid, 'SIGKILL')
    if (fault === 'fail') throw new Error(`injected at ${point}`)
    if (fault === undefined) return
    await delay(10)
  }
}

function readFaults(): Record<string, Fault> {
  return existsSync(faultsPath) ? (JSON.parse(readFileSync(faultsPath, 'utf8')) as Record<string, Fault>) : {}
}

await import('../../../agent/main.js')
