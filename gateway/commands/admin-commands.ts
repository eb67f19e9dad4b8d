import { randomUUID } from 'node:crypto'
import { readFile, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { ConfigError } from '../../shared/errors.js'
import { writeFileAtomic } from '../../shared/files.js'
import { splitHostPort } from '../../shared/join-token.js'
import type { Logger } from 'pino'
import { auditedBy } from '../access/audited.js'
import { AuditStore } from '../access/audit.js'
import { AccountStore } from '../accounts/account-store.js'
import { Admins } from '../accounts/admins.js'
import { LoginLog } from '../accounts/login-log.js'
import { Passwords } from '../accounts/passwords.js'
import { retentionOf, type GatewayConfig } from '../config.js'
import { PanelSettings } from '../settings/panel-settings.js'
import { PublicUrl } from '../settings/public-url.js'
import { externalServerOf } from '../store/redis-settings.js'
import { redisProcessOf } from '../store/redis-process.js'
import { Store } from '../store/store.js'
import { tlsSettingsDocument } from '../tls/tls-settings.js'

/*
 * This module contains commands that the host's operator runs to manage administrators. The commands change the
 * gateways' store. The Redis server of the store must be running.
 */

export interface CommandContext {
  readonly config: GatewayConfig
  /** Value of BERTH_REDIS_URL, which overrides the configuration. "": not set. */
  readonly redisUrl: string
  readonly log: Logger
}

const connectTimeoutMs = 5000

/**
 * Opens the gateways' store for a command.
 * @param prepare creates the objects that `work` needs; it runs before the store connects
 * @throws {BerthError} `store_unavailable` if the store is not running, or the error of `work`
 */
export async function withStore<T>(
  { config, redisUrl, log }: CommandContext,
  prepare: (store: Store) => T,
  work: (parts: T) => Promise<void>,
): Promise<void> {
  const server = externalServerOf({ redis: config.redis, redisUrl }) ?? { url: redisProcessOf(config, log).url }
  const store = new Store({ ...server, prefix: config.redis.prefix, log })
  const parts = prepare(store)
  try {
    await store.connected(connectTimeoutMs)
    await work(parts)
    await store.visibility.everywhere()
  } finally {
    await store.close()
  }
}

interface AdminTools {
  readonly admins: Admins
  readonly audit: AuditStore
  /** Creates the set-up link that contains this token. */
  readonly linkOf: (token: string) => Promise<string>
}

const toolsFor =
  ({ config, log }: CommandContext) =>
  (store: Store): AdminTools => {
    const accounts = new AccountStore(store)
    const loginLog = new LoginLog(store, retentionOf(config).logins)
    return {
      admins: new Admins({ store, accounts, passwords: new Passwords(), log: loginLog }),
      audit: new AuditStore(store, config.audit.keep, log),
      linkOf: createLinks(config, store, log),
    }
  }

/**
 * Creates links to the panel. They begin with its public URL or, if this URL is not known, with the address `listen`.
 * The token follows #, because browsers never send this part to servers, so no log contains it.
 */
function createLinks(config: GatewayConfig, store: Store, log: Logger): AdminTools['linkOf'] {
  const settings = new PanelSettings(store, log)
  const tlsSettings = tlsSettingsDocument(store, log)
  const address = config.tls_listen === '' ? undefined : splitHostPort(config.tls_listen)
  const publicUrl = new PublicUrl(settings, { documents: { settings: tlsSettings }, address })
  return async (token) => {
    await Promise.all([settings.publicUrl.refresh(), tlsSettings.refresh()])
    const path = `/setup#${token}`
    return publicUrl.link(path) || listenUrl(config) + path
  }
}

const system = { ref: 'system', user: 'system:host' } as const

/** Creates an administrator. The file contains the password. @throws {ConfigError} if the file cannot be read */
export async function addAdmin(context: CommandContext, username: string, passwordFile: string): Promise<void> {
  const password = await readPassword(passwordFile)
  await withStore(context, toolsFor(context), async ({ admins, audit }) => {
    await audited(audit, 'admin.create', username, () => admins.create(username, password))
    console.log(`administrator ${username} created`)
  })
}

/** Prints a link to set a new password. The old password, the second factor and all sessions become invalid. */
export async function recoverAdmin(context: CommandContext, username: string): Promise<void> {
  await withStore(context, toolsFor(context), async ({ admins, audit, linkOf }) => {
    const { token } = await audited(audit, 'admin.recover', username, () => admins.recover(username))
    console.log(await linkOf(token))
  })
}

/**
 * Prints the link for the first administrator and writes it to a file with mode 0600. A valid link in the file is kept.
 * If an administrator exists, the file is removed.
 */
export async function keepFirstLink(context: CommandContext, file: string): Promise<void> {
  await withStore(context, toolsFor(context), async ({ admins, linkOf }) => {
    const text = await readFile(file, 'utf8').catch(() => '')
    const known = /#(\S+)/.exec(text)?.[1]
    const isValid = known !== undefined && (await admins.hasFirstLink())
    const token = isValid ? known : await admins.firstLink()
    if (token === undefined) return rm(file, { force: true })
    const link = await linkOf(token)
    await writeFileAtomic(file, `${link}\n`)
    console.log(link)
  })
}

function audited<T>(audit: AuditStore, action: string, target: string, act: () => Promise<T>): Promise<T> {
  const start = { action, target, address: '', requestId: randomUUID(), caller: system }
  return auditedBy(audit, start, async () => ({
    value: await act(),
    target,
    detail: 'by a command on the host',
  }))
}

async function readPassword(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw new ConfigError(`cannot read ${file}`, { cause })
  })
  return text.replace(/\r?\n$/, '')
}

function listenUrl({ listen }: GatewayConfig): string {
  const { host, port } = splitHostPort(listen)
  const everywhere = ['0.0.0.0', '::'].includes(host)
  const shown = everywhere ? hostname() : host.includes(':') ? `[${host}]` : host
  return `http://${shown}:${port}`
}
