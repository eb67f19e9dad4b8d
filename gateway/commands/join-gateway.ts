import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { BerthError, conflict } from '../../shared/errors.js'
import { syncDirectory, writeFileAtomic } from '../../shared/files.js'
import { askJoinEndpoint } from '../../shared/join-client.js'
import {
  gatewayJoinAudience,
  gatewayJoinPath,
  parseJoinToken,
  type GatewayJoinRequest,
  type JoinTokenContent,
} from '../../shared/join-token.js'
import type { JoinedGateway } from '../gateways/gateways.js'
import { findOwnGateway, writeOwnGateway } from '../gateways/own-gateway.js'
import { encodePublicKey, openAnswer, type SealedAnswer } from '../gateways/sealed-answer.js'
import { withJoinedStore } from '../gateways/joined-store.js'
import { noGateways, type GatewayList } from '../gateways/gateway-list.js'
import { storeSettings, writeSharedState } from '../gateways/shared-state.js'
import { isJoinInterrupted, joiningDirectory, joinMarker } from '../store/state-files.js'
import { AccountStore } from '../accounts/account-store.js'
import { HostStore } from '../fleet/host-store.js'
import { withStore, type CommandContext } from './admin-commands.js'
import { startService, stopService } from './service.js'

export interface JoinOptions {
  /** True: the data of this server's gateway is set aside even if that gateway has hosts or administrators. */
  readonly replace: boolean
  /** False: the command neither stops nor starts the service. */
  readonly service: boolean
}

/** The former state is kept in a subdirectory of state_dir, whose name is this prefix and the new gateway's id. */
const formerPrefix = 'before-joining-as-'
/** Sort key of files that are moved into the state directory. The file with the gateway's identity is moved last. */
const order = (name: string): number => (name === 'gateway.json' ? 1 : 0)

/**
 * Makes this server a gateway of the fleet that created the token. The command can be interrupted at any point and run
 * again. It prepares the new state in a separate directory, and then exchanges it for the former state, which is kept.
 * During the exchange, the gateway does not start.
 * @param token token, or `-` to read it from standard input
 * @throws {BerthError} `join_token_invalid`, `gateway_untrusted`, `gateway_unreachable`, `gateway_in_use`,
 * `store_configured`, `wrong_store`, `state_mounted`, `store_unavailable`, or the refusal of the gateway that created
 * the token
 */
export async function joinAsGateway(context: CommandContext, token: string, options: JoinOptions): Promise<void> {
  const text = token === '-' ? await readFile('/dev/stdin', 'utf8') : token
  const content = parseJoinToken(text, gatewayJoinAudience)
  const { state_dir: stateDir } = context.config
  const own = await findOwnGateway(stateDir)
  // The identity is moved last, so it can be in place although an earlier run ended before it removed the marker.
  if (own?.id !== content.hostId || isJoinInterrupted(stateDir)) {
    refuseConfiguredStore(context)
    const joining = new GatewayJoin(context, content.hostId)
    await asOwnerOf(stateDir, () => joining.prepare(text.trim(), content, options.replace))
    if (options.service) stopService()
    await asOwnerOf(stateDir, () => joining.change())
  }
  if (options.service) await startService(context.config)
  console.log(`this machine is the gateway ${(await findOwnGateway(stateDir))!.name} of the fleet`)
}

/** @throws {BerthError} `store_configured` */
function refuseConfiguredStore({ config: { redis }, redisUrl }: CommandContext): void {
  if (redis.url === '' && redis.sentinels.length === 0 && redisUrl === '') return
  throw conflict(
    'store_configured',
    'this gateway has a store of its own, but would use the store of the fleet: remove redis.url and redis.sentinels from gateway.yaml and unset BERTH_REDIS_URL, then join again',
  )
}

/** Runs work on files as the service's user, because the directory could contain links by this user to root's files. */
async function asOwnerOf(directory: string, work: () => Promise<void>): Promise<void> {
  const { uid, gid } = await stat(directory)
  if (process.geteuid?.() !== 0 || uid === 0) return work()
  process.setegid?.(gid)
  process.seteuid?.(uid)
  try {
    await work()
  } finally {
    process.seteuid?.(0)
    process.setegid?.(0)
  }
}

class GatewayJoin {
  readonly #stateDir: string
  readonly #prepared: string

  constructor(
    private readonly context: CommandContext,
    private readonly id: string,
  ) {
    this.#stateDir = context.config.state_dir
    this.#prepared = join(this.#stateDir, joiningDirectory)
  }

  /** Prepares the new state, and checks that it can replace the present state. @param replace as in `JoinOptions` */
  async prepare(token: string, content: JoinTokenContent, replace: boolean): Promise<void> {
    if (isJoinInterrupted(this.#stateDir)) return
    if (!replace) await refuseUsed(this.context)
    if ((await findOwnGateway(this.#prepared))?.id !== this.id) await this.#fetch(token, content)
    await checkStore(this.context, this.#prepared, this.id)
    await this.#refuseMounts()
  }

  /** Replaces the gateway's state by the prepared state. The gateway must not run. */
  async change(): Promise<void> {
    if (!isJoinInterrupted(this.#stateDir)) await this.#begin()
    await this.#replaceState(join(this.#stateDir, `${formerPrefix}${this.id}`))
  }

  /** Gets the shared state and writes it. The identity is written last, because it marks a complete preparation. */
  async #fetch(token: string, content: JoinTokenContent): Promise<void> {
    await rm(join(this.#prepared, 'gateway.json'), { force: true })
    const key = await this.#ensureKey()
    const publicKey = encodePublicKey(createPublicKey(key))
    const request: GatewayJoinRequest = { token, public_key: publicKey, machine: hostname() }
    const { fields } = await askJoinEndpoint(content, gatewayJoinPath, request)
    const { id, name, state } = JSON.parse(openAnswer(key, fields as unknown as SealedAnswer)) as JoinedGateway
    if (id !== this.id)
      throw new BerthError('internal', 'gateway_untrusted', 'the gateway returned the identity of another gateway')
    await writeSharedState(this.#prepared, state)
    // With this file, the package berth-gateway creates no admin API key, which would be valid for the whole fleet.
    await writeFileAtomic(join(this.#prepared, 'admin-key-created'), '')
    await writeOwnGateway(this.#prepared, { id, name })
  }

  /** Returns this gateway's key for the encrypted answer. Stores it, because a join token works with only one key. */
  async #ensureKey(): Promise<KeyObject> {
    const path = join(this.#prepared, 'key.pem')
    if (existsSync(path)) return createPrivateKey(await readFile(path, 'utf8'))
    const { privateKey } = generateKeyPairSync('x25519')
    await writeFileAtomic(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    return privateKey
  }

  /** A mounted directory cannot be moved. @throws {BerthError} `state_mounted` */
  async #refuseMounts(): Promise<void> {
    // Mount points are read (proc_pid_mountinfo(5), fifth field), because device numbers differ within one overlayfs.
    const points = (await readFile('/proc/self/mountinfo', 'utf8')).split('\n').map((line) => line.split(' ')[4] ?? '')
    const mounted = points.find((point) => point.startsWith(`${this.#stateDir}/`))
    if (mounted !== undefined) throw conflict('state_mounted', `${mounted} is a mount point: unmount it first`)
  }

  /** Writes a marker with the names of the prepared files. The gateway does not start while the marker exists. */
  async #begin(): Promise<void> {
    await rm(join(this.#prepared, 'key.pem'), { force: true })
    const incoming = (await readdir(this.#prepared)).sort((a, b) => order(a) - order(b))
    await writeFileAtomic(join(this.#stateDir, joinMarker), JSON.stringify(incoming))
  }

  /** Moves the former state into a separate directory, and then puts the prepared state in its place. */
  async #replaceState(former: string): Promise<void> {
    const incoming = JSON.parse(await readFile(join(this.#stateDir, joinMarker), 'utf8')) as string[]
    await mkdir(former, { recursive: true, mode: 0o700 })
    const isFormer = (name: string): boolean => name !== joiningDirectory && !name.startsWith(formerPrefix)
    // After an interruption, entries that are missing in `#prepared` are already at their final place.
    const isMoved = (name: string): boolean => incoming.includes(name) && !existsSync(join(this.#prepared, name))
    for (const name of (await readdir(this.#stateDir)).filter((entry) => isFormer(entry) && !isMoved(entry)))
      await rename(join(this.#stateDir, name), join(former, name))
    for (const name of incoming.filter((entry) => !isMoved(entry)))
      await rename(join(this.#prepared, name), join(this.#stateDir, name))
    await syncDirectory(this.#stateDir)
    await rm(this.#prepared, { recursive: true })
    await syncDirectory(this.#stateDir)
  }
}

/**
 * Checks that this server reaches the store of the fleet. An address such as 127.0.0.1 would mean this server itself.
 * @throws {BerthError} `store_unavailable`, `wrong_store`
 */
async function checkStore(context: CommandContext, prepared: string, id: string): Promise<void> {
  const config = withJoinedStore({ ...context.config, state_dir: prepared })
  const list = await readGateways({ ...context, config })
  if (!list.gateways.some((gateway) => gateway.id === id))
    throw conflict(
      'wrong_store',
      'the address of the store leads to another server on this machine than on the other gateways: first configure, on the ' +
        'other gateways, an address at which every machine reaches the store',
    )
}

async function readGateways(context: CommandContext): Promise<GatewayList> {
  let list = noGateways
  await withStore(
    context,
    (store) => store,
    async (store) => {
      const text = await store.run('read the list of gateways', (client) => client.get(store.key('gateways')))
      if (text !== null) list = (JSON.parse(text) as { value: GatewayList }).value
    },
  )
  return list
}

/** Refuses to replace the data of a gateway that somebody uses. @throws {BerthError} `gateway_in_use` */
async function refuseUsed(context: CommandContext): Promise<void> {
  const has = (name: string): boolean => existsSync(join(context.config.state_dir, name))
  if (!has('redis') && !has(storeSettings)) return
  if (has(storeSettings) || (await hasHostsOrAdmins(context).catch(() => true)))
    throw conflict(
      'gateway_in_use',
      'the gateway on this machine belongs to another fleet, has hosts or administrators of its own, or its store does ' +
        'not answer: add --replace to set its data aside',
    )
}

async function hasHostsOrAdmins(context: CommandContext): Promise<boolean> {
  let isUsed = true
  await withStore(
    context,
    (store) => ({ hosts: new HostStore(store), accounts: new AccountStore(store) }),
    async ({ hosts, accounts }) => {
      const [{ records }, admins] = await Promise.all([hosts.list(), accounts.list('admin')])
      isUsed = records.length > 0 || admins.length > 0
    },
  )
  return isUsed
}
