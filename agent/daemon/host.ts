import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { invalidField } from '../../shared/errors.js'
import type { AgentConfig } from '../config.js'
import { createLxcDriver, type LxcDriver } from '../drivers/lxc/driver.js'
import { ensureHostLimits } from '../drivers/lxc/host-limits.js'
import { readInterfaces } from '../host/interfaces.js'
import { NetlinkWatch } from '../host/netlink-watch.js'
import type { Network } from '../network/contract.js'
import { createNetwork } from '../network/network.js'
import { createShaper, type HostShaper } from '../network/shaping/shaping.js'
import { parseResolvers } from '../network/resolvers.js'
import { parseSubnet } from '../network/subnet.js'
import { BtrfsDisks } from '../storage/disks.js'
import { openPool, type Pool } from '../storage/pool.js'
import { Trash } from '../storage/trash.js'
import type { Closers } from './closers.js'
import { recordKernelSettings } from './kernel-record.js'

/** The host made ready for guests: nothing here knows the journal. */
export interface Host {
  readonly pool: Pool
  readonly disks: BtrfsDisks
  readonly trash: Trash
  readonly lxc: LxcDriver
  /** What of it keeps guests from being apart as they could be. */
  readonly weaknesses: readonly string[]
  readonly network: Network
  readonly shaper: HostShaper
  readonly gateway: string
  readonly prefixLength: number
  /** How many addresses guests can have. */
  readonly ipv4Total: number
  readonly resolvers: readonly string[]
}

export async function openHost(config: AgentConfig, log: Logger, closers: Closers): Promise<Host> {
  await recordKernelSettings(config.state_dir, config.network.bridge)
  const raised = ensureHostLimits()
  if (raised.length > 0) log.info({ raised }, 'host limits')
  const pool = await openPool(config.storage)
  const trash = new Trash(pool, log)
  const disks = new BtrfsDisks(pool, trash)
  const lxc = await createLxcDriver({
    stateDir: config.state_dir,
    runDir: config.run_dir,
    namePrefix: config.network.interface_prefix,
    allow: config.lxc.allow,
    disks,
    log,
  })
  closers.add(() => lxc.close())
  const watch = new NetlinkWatch(config.network, (reason) =>
    log.warn({ reason }, 'the watch of the network ended and is started again'),
  )
  closers.add(() => watch.close())
  const network = createNetwork(config.network, { countInternal: config.traffic.count_internal, watch })
  closers.add(() => network.close())
  const shaper = createShaper(config.network.interface_prefix, watch)
  closers.add(() => shaper.close())
  const subnet = parseSubnet(config.network.subnet)
  return {
    pool,
    disks,
    trash,
    lxc,
    weaknesses: lxc.findWeaknesses(config.storage.pool),
    network,
    shaper,
    gateway: subnet.gateway,
    prefixLength: subnet.prefixLength,
    ipv4Total: subnet.last - subnet.first + 1,
    resolvers: await readResolvers(config),
  }
}

/**
 * What comes in at interfaces of guests' names is dropped unless it is by way of the bridge.
 * @throws {BerthError} `invalid_field` where the prefix is that of the bridge or of a device of the host
 */
export function checkInterfacePrefix({ interface_prefix: prefix, bridge }: AgentConfig['network']): void {
  const pattern = new RegExp(`^${prefix}\\d`)
  const others = [...readInterfaces()].filter((name) => existsSync(`/sys/class/net/${name}/device`))
  const taken = [bridge, ...others].find((name) => pattern.test(name))
  if (taken === undefined) return
  const message = `network.interface_prefix: ${taken} would be taken for a guest's interface`
  throw invalidField('network.interface_prefix', message)
}

async function readResolvers(config: AgentConfig): Promise<readonly string[]> {
  if (config.network.resolvers.length > 0) return config.network.resolvers
  return parseResolvers(await readFile('/etc/resolv.conf', 'utf8').catch(() => ''))
}
