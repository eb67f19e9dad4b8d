import type { BerthCommand } from './help/berth-command.js'
import type { HostAddSettings } from './commands/host-add.js'
import type { LoginOptions } from './commands/login.js'
import type { MigrateSettings } from './commands/migrate.js'
import type { GlobalOptions } from './session.js'
import { ownArguments, ownExamples, ownGlobalFlags } from './help/own-texts.js'
import { checkRemoteCommand } from './input/remote-command.js'
import { reportUsage } from './input/usage.js'
import type { Surroundings } from './surroundings.js'

/* Commands that are not operations of the API. Their code is loaded when they run. */

/** @param words the command line without the name of the program */
export function addOwnCommands(program: BerthCommand, surroundings: Surroundings, words: readonly string[]): void {
  const globals = (): GlobalOptions => program.opts<GlobalOptions>()
  const add = (name: string, description: string, check?: () => void): BerthCommand => {
    const command = program.command(name).description(description)
    command.globalFlags = ownGlobalFlags[command.name()] ?? ['context']
    for (const argument of command.registeredArguments) argument.description = ownArguments[argument.name()] ?? ''
    const example = ownExamples[command.name()]
    if (example === undefined) return reportUsage(command, { check })
    return reportUsage(command, { example, check }).addHelpText('after', `\nExample:\n  berth ${example}`)
  }
  addContextCommands(program, surroundings)
  addHostCommand(program, surroundings)

  addLoginCommands({ add, globals, surroundings })

  add('api <method> <path>', 'Sends any request, such as: berth api GET /hosts. The path is below /api/v1.')
    .option('--data <json>', 'body of the request; @FILE reads a file, @- the standard input')
    .option('--if-match <etag>', 'change the object only if it still has this ETag')
    .action(async (method: string, path: string, { data, ifMatch }: { data?: string; ifMatch?: string }) => {
      const { runRaw } = await import('./commands/api.js')
      await runRaw({ method, path, data, ifMatch, options: globals(), surroundings })
    })

  add('events', 'Prints changes as they happen.')
    .option('-f, --follow', 'connect again when the stream ends')
    .option('--kinds <kinds>', 'kinds of events, separated by commas: guest, task, host, usage, alert, maintenance')
    .action(async (options: { follow?: boolean; kinds?: string }) => {
      const { runEvents } = await import('./commands/events.js')
      await runEvents({ ...options, options: globals(), surroundings })
    })

  const check = (): void => checkRemoteCommand(words, 'ssh')
  add(
    'ssh <guest> [command...]',
    'Runs ssh to a guest through its address or port mapping: berth ssh web1 -- uptime',
    check,
  )
    .option('--user <name>', 'user in the guest', 'root')
    .action(async (guest: string, command: string[], { user }: { user: string }) => {
      check()
      const { runSsh } = await import('./commands/ssh.js')
      await runSsh({ guest, command, user, options: globals(), surroundings })
    })

  add('console <guest>', 'Opens a terminal of a guest through the gateway. Ctrl-] ends it.')
    .option('--serial', 'open the serial console with the messages of the boot')
    .action(async (guest: string, { serial }: { serial?: boolean }) => {
      const { runConsole } = await import('./commands/console.js')
      await runConsole({ guest, isSerial: serial ?? false, options: globals(), surroundings })
    })

  addRunCommand({ add, globals, surroundings }, words)
  addGuestCommands({ add, globals, surroundings })

  add('doctor', 'Lists the problems of the fleet and what to do next. Ends with 1 if there are any.').action(
    async () => {
      const { runDoctor } = await import('./commands/doctor.js')
      await runDoctor({ options: globals(), surroundings })
    },
  )

  add('top', 'Shows the usage of hosts and guests, sorted by processor usage, until q is pressed.').action(async () => {
    const { runTop } = await import('./commands/top.js')
    await runTop({ options: globals(), surroundings })
  })

  addPlannedCommands({ add, globals, surroundings })
  addFileCommands({ add, globals, surroundings })

  add('mcp', 'Offers the operations that the API key may use as tools to an assistant, over standard input and output.')
    .option('--read-only', 'offer only operations that change nothing')
    .option('--only <nouns>', 'offer only operations of these nouns, separated by commas: guest,task')
    .action(async ({ readOnly, only }: { readOnly?: true; only?: string }) => {
      const { runMcp } = await import('./commands/mcp.js')
      await runMcp({ only, isReadOnly: readOnly ?? false, options: globals(), surroundings })
    })

  add('completion <shell>', 'Prints the completion for bash, zsh or fish.').action(async (shell: string) => {
    const { completionScript } = await import('./completion/scripts.js')
    surroundings.writeOut(completionScript(shell))
  })
}

function addLoginCommands({ add, globals, surroundings }: AddedCommands): void {
  add('login <url>', 'Logs in to a gateway in a browser, or with an API key, and stores the key as a context.')
    .option('--no-browser', 'only print the address of the page, without opening a browser')
    .option('--with-key', 'ask for an API key without showing it, in place of a login in a browser')
    .option('--key-file <file>', 'file with an API key; - reads the standard input')
    .option('--name <name>', 'name of the context; default: the host in the URL')
    .option('--ca-file <file>', 'certificate in PEM that the gateway uses, if no public authority has signed it')
    .action(async (url: string, options: LoginOptions) => {
      const { logIn } = await import('./commands/login.js')
      await logIn(url, options, surroundings)
    })

  add(
    'logout',
    'Removes the current context, and deletes its API key if it was created by a login in a browser.',
  ).action(async () => {
    const { logOut } = await import('./commands/logout.js')
    await logOut(globals(), surroundings)
  })
}

function addRunCommand({ add, globals, surroundings }: AddedCommands, words: readonly string[]): void {
  const check = (): void => checkRemoteCommand(words, 'run')
  add(
    'run <guest> [command...]',
    'Runs a program in a container as root, without a terminal or SSH: berth run web1 -- uptime. Ends with its exit code.',
    check,
  ).action(async (guest: string, command: string[]) => {
    check()
    const { runRun } = await import('./commands/run.js')
    await runRun({ guest, command, options: globals(), surroundings })
  })
}

/** Adds commands that use consoles of guests, but without a terminal. */
function addGuestCommands({ add, globals, surroundings }: AddedCommands): void {
  add('logs <guest> [unit]', 'Prints the newest messages in the log of a container, of all programs or of one unit.')
    .option('-f, --follow', 'print new messages until Ctrl-C')
    .option('--lines <number>', 'number of messages', '100')
    .action(async (guest: string, unit: string | undefined, options: { follow?: true; lines: string }) => {
      const { runLogs } = await import('./commands/logs.js')
      const { lines, follow: isFollowed = false } = options
      await runLogs({ guest, unit, lines, isFollowed, options: globals(), surroundings })
    })

  add('cp <source> <target>', 'Copies a file to or from a container, without SSH: berth cp web1:/etc/hosts .')
    .option('-r, --recursive', 'copy a directory with everything in it')
    .action(async (source: string, target: string, { recursive }: { recursive?: true }) => {
      const { runCopy } = await import('./commands/cp.js')
      await runCopy({ source, target, isRecursive: recursive ?? false, options: globals(), surroundings })
    })

  add('vnc <guest>', 'Forwards a port of this machine to the screen of a virtual machine, for VNC viewers.')
    .option('--port <number>', 'port on 127.0.0.1; default: any free port')
    .action(async (guest: string, { port }: { port?: string }) => {
      const { runVnc } = await import('./commands/vnc.js')
      await runVnc({ guest, port, options: globals(), surroundings })
    })
}

interface AddedCommands {
  /** @param check called before the error about an unknown flag is reported */
  readonly add: (name: string, description: string, check?: () => void) => BerthCommand
  readonly globals: () => GlobalOptions
  readonly surroundings: Surroundings
}

/** Adds commands that explain a problem, or that show a plan before they change something. */
function addPlannedCommands({ add, globals, surroundings }: AddedCommands): void {
  add('why <guest> <port>', 'Explains why a TCP port of a guest cannot be reached. Ends with 1 in this case.')
    .option('--source <address>', 'address of the client that cannot connect; default: the address of this machine')
    .action(async (guest: string, port: string, { source }: { source?: string }) => {
      const { runWhy } = await import('./commands/why.js')
      await runWhy({ guest, port, source, options: globals(), surroundings })
    })

  add(
    'migrate <guest> [host]',
    'Shows how a guest would move to another host, and moves it after a confirmation. Without a host, Berth chooses it.',
  )
    .option('--offline', 'shut the guest down for the move; for guests that cannot move while they run')
    .option('--bandwidth-mbps <number>', 'limit of the transfer in Mbit/s; default: no limit')
    .option(
      '--max-downtime-ms <number>',
      'time in ms for the rest of the memory, while a virtual machine is paused; default: 500',
    )
    .option('--yes', 'move it without a confirmation')
    .action(async (guest: string, host: string | undefined, { yes, ...settings }: { yes?: true } & MigrateSettings) => {
      const { runMigrate } = await import('./commands/migrate.js')
      await runMigrate({ guest, host, settings, isConfirmed: yes ?? false, options: globals(), surroundings })
    })

  add(
    'drain <host>',
    'Shows what a drain would do to each guest of a host, begins it after a confirmation, and follows it.',
  )
    .option('--mode <word>', 'move: guests move to other hosts (default); stop: they are shut down')
    .option('--parallel <number>', 'number of guests that are moved or stopped at the same time; default: 2')
    .option('--deadline <time>', 'time after which no further guest is moved or stopped, such as +2h')
    .option('--yes', 'begin without a confirmation')
    .action(async (host: string, { yes, ...settings }: { yes?: true; mode?: string }) => {
      const { runDrain } = await import('./commands/drain.js')
      await runDrain({ host, settings, isConfirmed: yes ?? false, options: globals(), surroundings })
    })
}

/** Adds commands that compare the fleet with a file. */
function addFileCommands({ add, globals, surroundings }: AddedCommands): void {
  add('apply', 'Shows the difference between a fleet file and the fleet, and applies the file after a confirmation.')
    .requiredOption('-f, --file <file>', 'YAML file that describes the fleet; - reads the standard input')
    .option('--dry-run', 'only show the difference; ends with 5 if there is one')
    .option('--prune', 'delete guests that apply has created and that are no longer in the file')
    .option('--yes', 'apply the changes without a confirmation')
    .action(async ({ file, dryRun, prune, yes }: { file: string; dryRun?: true; prune?: true; yes?: true }) => {
      const { runApply } = await import('./commands/apply.js')
      const chosen = { isDryRun: dryRun ?? false, isPruned: prune ?? false, isConfirmed: yes ?? false }
      await runApply({ file, ...chosen, options: globals(), surroundings })
    })

  add('export', 'Prints a fleet file of the present state, without secrets. Applying it changes nothing.')
    .option('--set <name>', 'name of the set to which new guests of the file belong; default: main')
    .action(async ({ set }: { set?: string }) => {
      const { runExport } = await import('./commands/export.js')
      await runExport({ set, options: globals(), surroundings })
    })
}

function addContextCommands(program: BerthCommand, surroundings: Surroundings): void {
  const context = reportUsage(program.command('context').description('gateways to which you have logged in'))
  const load = () => import('./commands/context.js')
  const add = (name: string): BerthCommand => reportUsage(context.command(name))
  const list = add('list').alias('ls').description('Lists the contexts.')
  list.globalFlags = ['output', 'columns', 'jq', 'quiet']
  list.action(async () => (await load()).listContexts(program.opts<GlobalOptions>(), surroundings))
  add('use <name>')
    .description('Makes a context the current one.')
    .action(async (name: string) => (await load()).chooseContext(name, surroundings))
  add('remove <name>')
    .alias('rm')
    .description('Removes a context with its key.')
    .action(async (name: string) => (await load()).removeContext(name, surroundings))
}

/** Adds `berth host add` to the commands of the API for hosts. */
function addHostCommand(program: BerthCommand, surroundings: Surroundings): void {
  const host = program.commands.find((command) => command.name() === 'host') as BerthCommand | undefined
  const command = host?.command('add <name>')
  if (command === undefined) return
  command.globalFlags = ['output', 'jq', 'quiet', 'context', 'wait', 'timeout']
  const example = 'host add node1 --public-address node1.example.com'
  reportUsage(command, { example })
    .description('Adds a host, prints the command that installs it, and shows the progress until the host is online.')
    .option('--address <text>', 'address, as host:port, of the agent; default: the one from which the host joins')
    .option('--public-address <text>', 'DNS name or IP address at which clients reach the guests of the host')
    .option('-f, --follow', 'only follow the installation of a host that was added before')
    .addHelpText('after', `\nExample:\n  berth ${example}`)
    .action(async (host: string, settings: HostAddSettings) => {
      const { runHostAdd } = await import('./commands/host-add.js')
      await runHostAdd({ host, settings, options: program.opts<GlobalOptions>(), surroundings })
    })
}
