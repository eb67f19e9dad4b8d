#!/usr/bin/env node
import { access } from 'node:fs/promises'
import nodeModule from 'node:module'
import { join } from 'node:path'
import { Command } from 'commander'
import { readConfig } from '../shared/config.js'
import { BerthError, ConfigError, describeError } from '../shared/errors.js'
import { createLogger } from '../shared/logging.js'
import { version } from '../shared/version.js'
import type { CommandContext } from './commands/admin-commands.js'
import { GatewayConfigSchema, type GatewayConfig } from './config.js'
import { withJoinedStore } from './gateways/joined-store.js'

const defaultConfig = '/etc/berth/gateway.yaml'
/** Delay in ms after the start until the code that a start needs has been compiled. */
const compiledAfterMs = 10_000

/** The command line. Each command loads only its own modules. */
const program = new Command('berth-gateway')
  .description('Berth’s HTTP API in front of all hosts')
  .version(version)
  .showHelpAfterError()

interface Options {
  config: string
}

command('serve', 'run the gateway').action(({ config }: Options) => main(config, serve))
command('check-config', 'check the configuration and print it with defaults').action(({ config }: Options) =>
  main(config, async (parsed) => void console.log(JSON.stringify(parsed, null, 2))),
)
command('purge', 'remove the data of this configuration from a Redis server that the gateway does not manage').action(
  ({ config }: Options) => main(config, purge),
)
command(
  'init',
  'create the certificate authority, the secret and the API key of an administrator; existing files are kept',
)
  .requiredOption('--admin-key-file <file>', 'file for the key, mode 0600; an existing file is kept')
  .action(({ config, adminKeyFile }: Options & { adminKeyFile: string }) =>
    main(config, (parsed) => init(parsed, adminKeyFile)),
  )

command('join <token>', 'make this machine a further gateway of a fleet; the token “-” is read from standard input')
  .option(
    '--replace',
    'if this machine already has a gateway, move the data of that gateway to a separate directory',
    false,
  )
  .option('--no-service', 'do not stop and start the service berth-gateway')
  .action((token: string, { config, ...options }: Options & { replace: boolean; service: boolean }) =>
    main(
      config,
      async (parsed) =>
        (await import('./commands/join-gateway.js')).joinAsGateway(commandContext(parsed), token, options),
      (parsed) => parsed, // the configuration is unchanged: the command itself writes the settings of the joined store
    ),
  )

command('is-ready', 'succeed if the gateway of this machine serves requests').action(({ config }: Options) =>
  main(config, async (parsed) => (await import('./commands/is-ready.js')).checkReady(parsed)),
)

command('join-token', 'create a join token for the agent of this machine, and print it')
  .requiredOption('--key-file <file>', 'file with an API key of an administrator')
  .option('--address <host:port>', 'address of the agent', '127.0.0.1:7443')
  .option('--known <id>', 'id of the host as which the agent has joined', '')
  .action(({ config, ...options }: Options & { keyFile: string; address: string; known: string }) =>
    main(config, async (parsed) => {
      const { createLocalToken } = await import('./commands/join-token.js')
      console.log(await createLocalToken(parsed, options))
    }),
  )

command('disable-access-policy', 'allow every address to reach the gateway again, after a lockout').action(
  ({ config }: Options) => main(config, disableAccessPolicy),
)

const admin = program.command('admin').description('administrators who log in')

command('add <name>', 'create an administrator', admin)
  .requiredOption('--password-file <file>', 'file with the password, of at least 12 characters')
  .action((name: string, { config, passwordFile }: Options & { passwordFile: string }) =>
    main(config, async (parsed) =>
      (await import('./commands/admin-commands.js')).addAdmin(commandContext(parsed), name, passwordFile),
    ),
  )
command(
  'link <name>',
  'print a link for setting a new password; ends the sessions of the administrator and removes the password and the second factor',
  admin,
).action((name: string, { config }: Options) =>
  main(config, async (parsed) =>
    (await import('./commands/admin-commands.js')).recoverAdmin(commandContext(parsed), name),
  ),
)
command('first-link', 'print the setup link for the first administrator, if no administrator exists', admin)
  .requiredOption('--url-file <file>', 'file for the link, mode 0600; removed when an administrator exists')
  .action(({ config, urlFile }: Options & { urlFile: string }) =>
    main(config, async (parsed) =>
      (await import('./commands/admin-commands.js')).keepFirstLink(commandContext(parsed), urlFile),
    ),
  )

function command(name: string, description: string, parent: Command = program): Command {
  return parent
    .command(name)
    .description(description)
    .option('-c, --config <file>', 'configuration file', defaultConfig)
}

/** Runs a command. An error is printed as one line. The exit code is 1, or 2 for an invalid configuration. */
async function main(
  configPath: string,
  run: (config: GatewayConfig) => Promise<void>,
  complete: (config: GatewayConfig) => GatewayConfig = withJoinedStore,
): Promise<void> {
  try {
    await run(complete(readConfig(GatewayConfigSchema, configPath)))
  } catch (error) {
    console.error(`berth-gateway: ${describeError(error)}`)
    process.exitCode = error instanceof ConfigError ? 2 : 1
    if (!(error instanceof BerthError || error instanceof ConfigError)) console.error(error)
  }
}

async function purge({ redis, state_dir: stateDir }: GatewayConfig): Promise<void> {
  const { findOwnGateway } = await import('./gateways/own-gateway.js')
  const { purgeStore } = await import('./store/purge.js')
  const { externalServerOf } = await import('./store/redis-settings.js')
  const server = externalServerOf({ redis, redisUrl: readRedisUrl() })
  const ownId = async (): Promise<string | undefined> => (await findOwnGateway(stateDir))?.id
  if (server) console.log(`${await purgeStore(server, redis.prefix, await ownId())} keys ${redis.prefix}* removed`)
}

/** Disables the access policy in the store of the gateways. The store must be running. */
async function disableAccessPolicy(config: GatewayConfig): Promise<void> {
  const { withStore } = await import('./commands/admin-commands.js')
  const { AccessPolicies } = await import('./policy/access-policy.js')
  const context = commandContext(config)
  await withStore(
    context,
    (store) => new AccessPolicies({ store, trustedProxies: [], log: context.log }),
    async (policies) => {
      await policies.disable()
      console.log('the access policy is off')
    },
  )
}

function commandContext(config: GatewayConfig): CommandContext {
  return { config, redisUrl: readRedisUrl(), log: createLogger({ name: 'berth-gateway', level: 'error' }) }
}

const readRedisUrl = (): string => process.env['BERTH_REDIS_URL'] ?? ''

async function serve(config: GatewayConfig): Promise<void> {
  const { startGateway } = await import('./gateway.js')
  const log = createLogger({ name: 'berth-gateway', level: config.log_level })
  const { startWhenPossible } = await import('../shared/start-again.js')
  const { ListeningSockets } = await import('./sockets/listening-sockets.js')
  const sockets = ListeningSockets.of(process.env, log)
  let reasonFound: (reason: 'signal' | 'removed') => void = () => undefined
  const reason = new Promise<'signal' | 'removed'>((resolve) => (reasonFound = resolve))
  for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => reasonFound('signal'))
  const onRemoved = (): void => reasonFound('removed')
  const options = { config, redisUrl: readRedisUrl(), version, log, sockets, onRemoved }
  const close = await startWhenPossible(() => startGateway(options), log)
  setTimeout(storeCompiledCode, compiledAfterMs).unref()
  const stopsBecause = await reason
  log.info('stopping')
  await close()
  // A removed gateway must stay stopped. A ConfigError ensures this, because systemd then does not restart the gateway.
  if (stopsBecause === 'removed')
    throw new ConfigError('this gateway was removed from its fleet: let it join again with a new token')
}

/**
 * Stores compiled code in the directory of the environment variable NODE_COMPILE_CACHE, so that the next start is faster
 * also after a crash. Without this variable, and with Node.js before 22.10, this does nothing.
 */
function storeCompiledCode(): void {
  const { flushCompileCache } = nodeModule as { flushCompileCache?: () => void }
  flushCompileCache?.()
}

async function init(config: GatewayConfig, adminKeyFile: string): Promise<void> {
  const { ensureAuthority } = await import('./pki/authority.js')
  const { createAdminKey } = await import('./access/bootstrap.js')
  const { readOrCreateKey } = await import('../shared/sealing.js')
  const { refuseInterruptedJoin } = await import('./store/state-files.js')
  refuseInterruptedJoin(config.state_dir)
  await ensureAuthority(join(config.state_dir, 'pki'), config.certificates.ca_days)
  await readOrCreateKey(join(config.state_dir, 'secret'))
  if (await exists(adminKeyFile)) return console.log(`${adminKeyFile} already exists`)
  await createAdminKey(config.state_dir, adminKeyFile)
  console.log(`${adminKeyFile} written`)
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

await program.parseAsync()
