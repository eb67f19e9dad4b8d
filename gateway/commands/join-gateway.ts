import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chown, mkdir, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
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
import { writeSharedState } from '../gateways/shared-state.js'
import { AccountStore } from '../accounts/account-store.js'
import { HostStore } from '../fleet/host-store.js'
import { withStore, type CommandContext } from './admin-commands.js'
import { startService, stopService } from './service.js'

export interface JoinOptions {
  /** True: data of a gateway is set aside even if it already has hosts or administrators. */
  readonly replace: boolean
  /** False: the service is neither stopped nor started. */
  readonly service: boolean
}

/** Directory, in the state directory, with the state that the gateway will have after the change. */
const preparation = 'joining'
/** Beginning of the name of the directory, in the state directory, with the former state. The id of the gateway follows. */
const formerPrefix = 'before-joining-as-'

/**
 * Makes this machine a gateway of the fleet that created the token. It can be interrupted and run again at any point:
 * the state is prepared in a directory of its own, and then replaces the former state, which is kept.
 * @param token token, or `-` to read it from standard input
 * @throws {BerthError} `join_token_invalid`, `gateway_untrusted`, `gateway_unreachable`, `gateway_in_use`,
 * `store_configured`, `store_unavailable`, or the refusal of the gateway that created the token
 */
export async function joinAsGateway(context: CommandContext, token: string, options: JoinOptions): Promise<void> {
  const text = token === '-' ? await readFile('/dev/stdin', 'utf8') : token
  const content = parseJoinToken(text, gatewayJoinAudience)
  const { state_dir: stateDir, redis } = context.config
  if ((await findOwnGateway(stateDir))?.id !== content.hostId) {
    if (redis.url !== '' || redis.sentinels.length > 0 || context.redisUrl !== '')
      throw conflict(
        'store_configured',
        'a joined gateway uses the store of its fleet: first remove the address of the store from gateway.yaml or BERTH_REDIS_URL',
      )
    await new GatewayJoin(context, options).join(text.trim(), content)
  }
  if (options.service) await startService(context.config)
  console.log(`this machine is the gateway ${(await findOwnGateway(stateDir))!.name} of the fleet`)
}

class GatewayJoin {
  readonly #stateDir: string
  readonly #prepared: string

  constructor(
    private readonly context: CommandContext,
    private readonly options: JoinOptions,
  ) {
    this.#stateDir = context.config.state_dir
    this.#prepared = join(this.#stateDir, preparation)
  }

  async join(token: string, content: JoinTokenContent): Promise<void> {
    const former = join(this.#stateDir, `${formerPrefix}${content.hostId}`)
    const prepared = await findOwnGateway(this.#prepared)
    if (prepared?.id !== content.hostId) await this.#prepare(token, content)
    // If the directory exists, an earlier run was interrupted after these checks, while it replaced the state.
    if (!existsSync(former)) {
      await checkStore(this.context, this.#prepared)
      if (!this.options.replace) await refuseUsed(this.context)
    }
    if (this.options.service) stopService()
    await this.#replaceState(former)
  }

  /** Gets the shared state and writes its files. The identity is the last one: it marks a complete preparation. */
  async #prepare(token: string, content: JoinTokenContent): Promise<void> {
    await rm(join(this.#prepared, 'gateway.json'), { force: true })
    const key = await this.#ensureKey()
    const publicKey = encodePublicKey(createPublicKey(key))
    const request: GatewayJoinRequest = { token, public_key: publicKey, machine: hostname() }
    const { fields } = await askJoinEndpoint(content, gatewayJoinPath, request)
    const { id, name, state } = JSON.parse(openAnswer(key, fields as unknown as SealedAnswer)) as JoinedGateway
    if (id !== content.hostId)
      throw new BerthError('internal', 'gateway_untrusted', 'the gateway returned the identity of another gateway')
    await writeSharedState(this.#prepared, this.#stateDir, state)
    await writeOwnGateway(this.#prepared, { id, name })
  }

  /** Returns the key for which the answer is encrypted. A token works only with the key of its first use. */
  async #ensureKey(): Promise<KeyObject> {
    const path = join(this.#prepared, 'key.pem')
    if (existsSync(path)) return createPrivateKey(await readFile(path, 'utf8'))
    const { privateKey } = generateKeyPairSync('x25519')
    await writeFileAtomic(path, privateKey.export({ type: 'pkcs8', format: 'pem' }).toString())
    return privateKey
  }

  /**
   * Moves the former state into a directory of its own, and then the prepared state to the former's place. The file
   * with the identity is moved last: it shows that the change is complete.
   */
  async #replaceState(former: string): Promise<void> {
    await rm(join(this.#prepared, 'key.pem'), { force: true })
    await mkdir(former, { recursive: true, mode: 0o700 })
    const isFormer = (name: string): boolean => name !== preparation && !name.startsWith(formerPrefix)
    const incoming = await readdir(this.#prepared)
    // Entries that are missing among the prepared ones are in their final place already: an earlier run has moved them.
    const moved = new Set(['pki', 'secret', 'store'].filter((name) => !incoming.includes(name)))
    for (const name of (await readdir(this.#stateDir)).filter(isFormer))
      if (!moved.has(name)) await rename(join(this.#stateDir, name), join(former, name))
    await chownLike(this.#stateDir, this.#prepared)
    for (const name of incoming.sort((a, b) => Number(a === 'gateway.json') - Number(b === 'gateway.json')))
      await rename(join(this.#prepared, name), join(this.#stateDir, name))
    await syncDirectory(this.#stateDir)
    await rm(this.#prepared, { recursive: true })
  }
}

/** Checks that this machine reaches the store. @throws {BerthError} `store_unavailable` */
async function checkStore(context: CommandContext, prepared: string): Promise<void> {
  // The prepared settings name files by their final paths. These files are still in the directory `prepared`.
  const config = withJoinedStore({ ...context.config, state_dir: prepared })
  const isPath = (value: unknown): value is string =>
    typeof value === 'string' && value.startsWith(`${context.config.state_dir}/`)
  const redis = Object.fromEntries(
    Object.entries(config.redis).map(([key, value]) => [
      key,
      isPath(value) ? value.replace(context.config.state_dir, prepared) : value,
    ]),
  ) as typeof config.redis
  await withStore(
    { ...context, config: { ...config, redis } },
    () => undefined,
    async () => undefined,
  )
}

/** Refuses to replace the data of a gateway that somebody uses. @throws {BerthError} `gateway_in_use` */
async function refuseUsed(context: CommandContext): Promise<void> {
  if (!existsSync(join(context.config.state_dir, 'redis'))) return
  let isUsed = true
  await withStore(
    context,
    (store) => ({ hosts: new HostStore(store), accounts: new AccountStore(store) }),
    async ({ hosts, accounts }) => {
      const [{ records }, admins] = await Promise.all([hosts.list(), accounts.list('admin')])
      isUsed = records.length > 0 || admins.length > 0
    },
  ).catch(() => undefined)
  if (isUsed)
    throw conflict(
      'gateway_in_use',
      'the gateway of this machine has hosts or administrators of its own, or its store does not answer: add --replace ' +
        'to set its data aside',
    )
}

/** Gives all files of a directory the owner of another directory. */
async function chownLike(model: string, directory: string): Promise<void> {
  const { uid, gid } = await stat(model)
  await chown(directory, uid, gid)
  for (const entry of await readdir(directory, { recursive: true })) await chown(join(directory, entry), uid, gid)
}
