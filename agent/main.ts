#!/usr/bin/env node
import { Command } from 'commander'
import { join } from 'node:path'
import { BerthError, ConfigError, describeError } from '../shared/errors.js'
import { createLogger } from '../shared/logging.js'
import { splitHostPort } from '../shared/join-token.js'
import { version } from '../shared/version.js'
import type { AgentConfig } from './config.js'
import type { ImportOptions } from './imports/command.js'
import { readAgentConfig } from './read-config.js'

const defaultConfig = '/etc/berth/agent.yaml'

/** Each command loads only its own modules, because a daemon keeps all loaded modules in memory. */
const program = new Command('berth-agent')
  .description('Berth’s agent: runs the guests of one host')
  .version(version)
  .showHelpAfterError()

command('serve', 'run the agent').action(({ config }: Options) => {
  const loading = import('./daemon/daemon.js') // the module loads while the configuration is read
  loading.catch(() => undefined) // a failure is reported where `loading` is awaited
  return main(config, async (parsed) => serve(parsed, await loading))
})
command('check-config', 'check the configuration and print it with defaults').action(({ config }: Options) =>
  main(config, async (parsed) => void console.log(JSON.stringify(parsed, null, 2))),
)
command('join <token>', 'join the gateway that created the token; - reads it from standard input').action(
  (token: string, { config }: Options) =>
    main(config, async (parsed) => {
      const { joinGateway, readJoinToken } = await import('./enrollment/join.js')
      const { hostId } = await joinGateway(
        await readJoinToken(token, process.stdin),
        join(parsed.state_dir, 'identity'),
        splitHostPort(parsed.listen).port,
      )
      console.log(`joined as ${hostId}`)
    }),
)
command(
  'identity',
  'print the host id of this machine and the expiry of its certificate, as lines of the form KEY=VALUE',
).action(({ config }: Options) =>
  main(config, async (parsed) => {
    const { getIdentity } = await import('./enrollment/identity.js')
    const { hostId, notAfterMs } = getIdentity(join(parsed.state_dir, 'identity'))
    console.log(`host=${hostId}\nexpires=${new Date(notAfterMs).toISOString()}`)
  }),
)
command('purge', 'remove all guests, rules, storage and state of this configuration').action(({ config }: Options) =>
  main(config, async (parsed) => {
    const { purge } = await import('./daemon/purge.js')
    await purge(parsed, createLogger({ name: 'berth-agent', level: parsed.log_level }))
  }),
)
command('stop-guests', 'shut down all guests while the agent is stopped; the agent starts them again at its next start')
  .option('--with-machine', 'only while systemd is shutting the machine down')
  .action(({ config, withMachine }: Options & { withMachine?: true }) =>
    main(config, async (parsed) => {
      const { stopGuests, stopGuestsWithMachine } = await import('./daemon/stop-guests.js')
      const log = createLogger({ name: 'berth-agent', level: parsed.log_level })
      await (withMachine ? stopGuestsWithMachine : stopGuests)(parsed, log)
    }),
  )
command(
  'import [kind] [container]',
  'create a guest from a container of this host: lxd NAME, incus NAME, proxmox-ct NUMBER, directory PATH or archive FILE',
)
  .option('--dry-run', 'only print the plan')
  .option('--name <name>', 'name of the guest; by default the name of the container')
  .option('--vcpu <number>', 'number of processors')
  .option('--ram <MB>', 'memory')
  .option('--disk <GB>', 'size of the disk')
  .option('--rootfs <directory>', 'directory with the files of the container, if it is not where it usually is')
  .option(
    '--config-file <file>',
    'configuration of the container: backup.yaml of LXD and Incus, NUMBER.conf of Proxmox',
  )
  .option('--start', 'start the guest')
  .option('--cancel <id>', 'cancel an import that waits for a gateway; name no container then')
  .action((kind: string | undefined, container: string | undefined, { config, ...options }: Options & ImportOptions) =>
    main(config, async (parsed) => {
      const { importContainer } = await import('./imports/command.js')
      await importContainer(parsed, { kind, container, options })
    }),
  )

interface Options {
  config: string
}

function command(name: string, description: string): Command {
  return program
    .command(name)
    .description(description)
    .option('-c, --config <file>', 'configuration file', defaultConfig)
}

/** Runs one command. An error becomes a line on stderr and exit code 1, or 2 if the configuration is invalid. */
async function main(configPath: string, run: (config: AgentConfig) => Promise<void>): Promise<void> {
  try {
    await run(await readAgentConfig(configPath))
  } catch (error) {
    console.error(`berth-agent: ${describeError(error)}`)
    if (!(error instanceof BerthError || error instanceof ConfigError)) console.error(error)
    process.exitCode = error instanceof ConfigError ? 2 : 1
  }
}

async function serve(config: AgentConfig, { startDaemon }: typeof import('./daemon/daemon.js')): Promise<void> {
  const log = createLogger({ name: 'berth-agent', level: config.log_level })
  const { startWhenPossible } = await import('../shared/start-again.js')
  const daemon = await startWhenPossible(() => startDaemon({ config, log, version }), log)
  await new Promise<void>((stop) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => stop())
  })
  log.info('stopping; guests keep running')
  await daemon.close()
}

await program.parseAsync()
