import { expect } from 'chai'
import type { Command } from 'commander'
import { compactOperations, type ApiDocument } from '../../cli/catalog/compact.js'
import { commandOf, type Operation } from '../../cli/catalog/operation.js'
import { summarizedOperations } from '../../cli/catalog/summaries.js'
import { CliError } from '../../cli/errors.js'
import { BerthHelp, type BerthCommand } from '../../cli/help/berth-command.js'
import { helpWords } from '../../cli/help/help-words.js'
import { nounSynonyms, verbSynonyms } from '../../cli/help/synonyms.js'
import { parseValues } from '../../cli/input/values.js'
import { createProgram } from '../../cli/program.js'
import type { Surroundings } from '../../cli/surroundings.js'
import { apiDocument } from '../../scripts/lib/api-document.js'

const document = apiDocument() as ApiDocument
const operations = compactOperations(document)
const nouns = new Set(operations.map(({ noun }) => noun))

const programFor = (words: readonly string[]): BerthCommand =>
  createProgram({ operations, surroundings: {} as Surroundings, words }).configureOutput({
    writeOut: () => undefined,
    writeErr: () => undefined,
  })

/** Returns the help of a command, or the error of the command line. */
function helpOf(...given: string[]): string | CliError {
  const words = helpWords(given, nouns)
  const program = programFor(words)
  let text = ''
  const collect = (command: Command): void => {
    command.configureOutput({ writeOut: (part) => void (text += part), getOutHelpWidth: () => 200 })
    command.commands.forEach(collect)
  }
  collect(program)
  try {
    program.parse(words, { from: 'user' })
  } catch (error) {
    if (error instanceof CliError) return error
  }
  return text
}

/** Splits a line of a shell into words, without quotes and redirections. */
const shellWords = (line: string): string[] =>
  [...line.replace(/ > \S+$/, '').matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) =>
    word.replaceAll(/'([^']*)'|"([^"]*)"/g, '$1$2'),
  )

const context = { nowMs: () => 0, readFile: () => '{"id": "q83v"}' }

/** Returns the flags of an operation with their values, as an example uses them. */
function flagsIn(operation: Operation): { name: string; value: string | undefined }[] {
  const words = shellWords(operation.example)
  return words.flatMap((word, index) =>
    word.startsWith('-') && !/^-\d/.test(word)
      ? [{ name: word.replace(/^-+(no-)?/, ''), value: words[index + 1] }]
      : [],
  )
}

/** Rules for the help of each command. Each returns what breaks the rule. */
const rules: Readonly<Record<string, (operation: Operation) => readonly string[]>> = {
  'has a summary that says what the command does, not what the API answers': ({ summary }) =>
    /^(Queues|Returns)|queued|The answer (is|contains)/.test(summary) ? [summary] : [],

  'has a text for each argument and flag': ({ arguments: args, flags }) => [
    ...args.filter(({ text }) => !text).map(({ label }) => label),
    ...flags.filter(({ text }) => !text).map(({ name }) => `--${name}`),
  ],

  'says that names are accepted for each flag that accepts them': ({ flags }) =>
    flags.filter(({ names, text }) => names && !/\bnames?\b/i.test(text)).map(({ name, text }) => `--${name}: ${text}`),

  'lists the keys of each flag with an object, and an example with all required keys': ({ flags }) =>
    flags
      .filter(({ type }) => type === 'object')
      .filter((flag) => {
        const { keys = [], example = '' } = flag
        const [value] = [parseValues({ ...flag, isList: true }, shellWords(example), context)].flat() as object[]
        const isFile = example.startsWith('@')
        const given = Object.keys(value ?? {})
        const missing = keys.filter(({ name, isRequired }) => isRequired && !given.includes(name) && !isFile)
        const unknown = given.filter((name) => !keys.some((key) => key.name === name))
        return keys.length === 0 || missing.length + unknown.length > 0
      })
      .map(({ name }) => `--${name}`),

  'has an example that uses only existing flags with valid values, and all required flags': (operation) => {
    const used = flagsIn(operation)
    const known = (name: string) => operation.flags.find((flag) => flag.name === name)
    const globals = [...(operation.globalFlags ?? []), ...(operation.answer === 'file' ? ['f'] : [])] as string[]
    return [
      ...used.filter(({ name }) => !known(name) && !globals.includes(name)).map(({ name }) => `unknown ${name}`),
      ...operation.flags
        .filter((flag) => flag.isRequired && !used.some(({ name }) => name === flag.name))
        .map(({ name }) => `missing ${name}`),
      ...used.flatMap(({ name, value }) => {
        const flag = known(name)
        if (!flag || flag.type === 'switch') return []
        const sent = parseValues(flag, [value ?? ''], context)
        return typeof sent === 'string' && /^[+-]\d+[a-z]$/.test(sent)
          ? [`--${name} ${sent} is not converted to a time`]
          : []
      }),
    ]
  },

  'shows --columns only for lists, and --no-wait only for tasks': ({ verb, summary, globalFlags = [], method }) =>
    (globalFlags.includes('columns') && /^Deletes/.test(summary)) ||
    (globalFlags.includes('wait') && method === 'GET') ||
    (verb === 'list' && !globalFlags.includes('columns'))
      ? [...globalFlags]
      : [],
}

describe('the help of the command line', () => {
  for (const [rule, broken] of Object.entries(rules))
    it(`of each command ${rule}`, () => {
      const found = operations.flatMap((operation) =>
        broken(operation).map((text) => `${commandOf(operation)}: ${text}`),
      )
      expect(found).to.deep.equal([])
    })

  it('of each flag of commands without an operation has a text', () => {
    const textless = (command: Command): string[] => [
      ...command.options.filter(({ hidden, description }) => !hidden && !description).map(({ flags }) => flags),
      ...command.commands.flatMap(textless),
    ]
    expect(textless(programFor([]))).to.deep.equal([])
  })

  it('replaces only summaries of operations that exist', () => {
    const ids = Object.values(document.paths).flatMap((methods) => Object.values(methods).map((one) => one.operationId))
    expect(summarizedOperations.filter((id) => !ids.includes(id))).to.deep.equal([])
  })

  it('describes no two commands of a noun with the same text', () => {
    const program = programFor([...nouns])
    const help = new BerthHelp()
    for (const noun of program.commands) {
      const texts = help.visibleCommands(noun).map((command) => command.description())
      expect(texts, noun.name()).to.have.length(new Set(texts).size)
    }
    const visible = (noun: string): string[] =>
      help.visibleCommands(program.commands.find((command) => command.name() === noun)!).map((verb) => verb.name())
    expect(visible('language')).to.deep.equal(['get', 'set'])
    expect(visible('guest')).to.include('list-short').and.not.to.include('list-short-by-post')
  })

  it('shows required arguments as required, unless --data can contain them', () => {
    expect(helpOf('guest', 'create', '--help')).to.match(/^Usage: berth guest create \[options\] <name>\n/)
    expect(helpOf('guest', 'create', '--data', '{}', '--help')).to.contain('create [options] [name]\n')
  })

  it('shows the keys of objects, the syntax of times, and all exit codes', () => {
    expect(helpOf('guest', 'create', '--help')).to.contain(
      'Keys of --port:\n  container_port      (required, number) Port of the guest, or the first port of a range.\n',
    )
    expect(helpOf('guest', 'set-expiry', '--help')).to.contain('relative to now: +30d')
    expect(helpOf('--help')).to.match(/^ {2}130 Ctrl-C while waiting$/m)
  })

  for (const [given, usage] of [
    [['help'], 'berth '],
    [['help', 'guest'], 'berth guest '],
    [['guest', 'help'], 'berth guest '],
    [['help', 'guest', 'create'], 'berth guest create '],
    [['guest', 'help', 'create'], 'berth guest create '],
    [['guest', 'ls', '--help'], 'berth guest list|ls '],
    [['port', 'rm', '--help'], 'berth port remove|rm '],
    [['guest', 'show', '--help'], 'berth guest get|show '],
    [['language', 'replace', '--help'], 'berth language replace '],
  ] as const)
    it(`is printed by: berth ${given.join(' ')}`, () => expect(helpOf(...given)).to.contain(`Usage: ${usage}`))

  for (const [given, command, hint] of [
    [['gust', '--help'], 'berth gust', 'did you mean berth guest?'],
    [['guest', 'foo', '--help'], 'berth guest foo', 'see berth guest --help'],
    [['help', 'vm'], 'berth vm', 'did you mean berth guest?'],
    [['container', 'list'], 'berth container', 'did you mean berth guest?'],
    [['sub-user'], 'berth sub-user', 'did you mean berth customer?'],
    [['key', 'list'], 'berth key', 'did you mean berth api-key?'],
    [['ls'], 'berth ls', 'did you mean berth guest list?'],
    [['exec', 'web1'], 'berth exec', 'did you mean berth run?'],
    [['guest', 'info', 'web1'], 'berth guest info', 'did you mean berth guest get?'],
    [['guest', 'reboot', 'web1'], 'berth guest reboot', 'did you mean berth guest restart?'],
    [['guest', 'add', 'web1'], 'berth guest add', 'did you mean berth guest create?'],
    [['port', 'create', 'web1'], 'berth port create', 'did you mean berth port add?'],
    [['guest', 'remove', 'web1'], 'berth guest remove', 'did you mean berth guest delete?'],
    [['guest', 'ssh', 'web1'], 'berth guest ssh', 'did you mean berth ssh?'],
    [['guest', 'lst'], 'berth guest lst', 'did you mean berth guest list?'],
    [['context', 'switch'], 'berth context switch', 'see berth context --help'],
    [['xyzzy'], 'berth xyzzy', 'see berth --help'],
  ] as const)
    it(`is replaced by an error for: berth ${given.join(' ')}`, () => {
      const { exitCode, message, hint: shown } = helpOf(...given) as CliError
      expect([exitCode, message, shown]).to.deep.equal([2, `unknown command: ${command}`, hint])
    })

  it('suggests only commands that exist', () => {
    const program = programFor([...nouns])
    const exists = (path: string): boolean =>
      path
        .split(' ')
        .reduce<Command | undefined>(
          (parent, word) => parent?.commands.find((command) => command.name() === word),
          program,
        ) !== undefined
    expect(Object.values(nounSynonyms).filter((path) => !exists(path))).to.deep.equal([])
    const verbs = new Set(program.commands.flatMap((noun) => noun.commands.map((verb) => verb.name())))
    const unknown = Object.values(verbSynonyms).flatMap((list) => list.split(', ').filter((verb) => !verbs.has(verb)))
    expect(unknown).to.deep.equal([])
  })
})
