import { expect } from 'chai'
import { compactOperations, type ApiDocument } from '../../cli/catalog/compact.js'
import { describeNouns } from '../../cli/catalog/nouns.js'
import type { Schema } from '../../cli/catalog/flags.js'
import { hostCommands } from '../../cli/catalog/host-commands.js'
import { commandOf } from '../../cli/catalog/operation.js'
import { objectExample } from '../../cli/input/object-examples.js'
import { fullSchema } from '../../cli/mcp/plan-schema.js'
import { createProgram } from '../../cli/program.js'
import type { Surroundings } from '../../cli/surroundings.js'
import { eventKinds } from '../../gateway/events/event.js'
import { apiDocument } from '../../scripts/lib/api-document.js'

const document = apiDocument() as ApiDocument
const operations = compactOperations(document)

/** Returns the schema of a field of a request, or of its items. */
function schemaOf(method: string, path: string, field: string) {
  const body = document.paths[path]![method.toLowerCase()]!.requestBody!.content['application/json']!.schema!
  const { properties = {} } = fullSchema(body, document)
  const own = properties[field] as Schema
  const { properties: fields = {}, required = [] } = own.items ?? own
  return { properties: fields, required }
}

describe('the commands of the command line', () => {
  it('include each operation of the API exactly once', () => {
    const documented = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    )
    expect(operations.map(({ method, path }) => `${method} ${path}`)).to.have.members(documented)
    const names = operations.map(commandOf)
    expect(names.filter((name, index) => names.indexOf(name) !== index)).to.deep.equal([])
    expect(names.filter((name) => !/^[a-z][a-z0-9-]* [a-z][a-z0-9-]*$/.test(name))).to.deep.equal([])
  })

  it('are all registered in the program, even those without an operation of the API', () => {
    const words = operations.map(({ noun }) => noun)
    const program = createProgram({ operations, surroundings: {} as Surroundings, words })
    const nouns = program.commands.map((command) => command.name())
    expect(nouns.filter((noun, index) => nouns.indexOf(noun) !== index)).to.deep.equal([])
    const registered = program.commands.flatMap((noun) => noun.commands.map((verb) => `${noun.name()} ${verb.name()}`))
    expect(registered).to.include.members(operations.map(commandOf))
  })

  it('have different names for all their flags, including the common flags', () => {
    const reserved = ['output', 'columns', 'quiet', 'context', 'wait', 'timeout', 'version', 'help', 'data']
    const clashes = operations.flatMap((operation) => {
      const names = [...operation.flags.map(({ name }) => name), ...reserved]
      return names
        .filter((name, index) => names.indexOf(name) !== index)
        .map((name) => `${commandOf(operation)} --${name}`)
    })
    expect(clashes).to.deep.equal([])
  })

  it('have an example for each flag that is an object, except for passkeys', () => {
    const flags = operations.flatMap(({ method, path, flags }) =>
      flags
        .filter(({ type }) => type === 'object')
        .map((flag) => ({ ...flag, schema: schemaOf(method, path, flag.field) })),
    )
    expect(flags.map(({ name }) => name)).to.include.members(['port', 'rule'])
    for (const { name, field, schema } of flags.filter((flag) => flag.field !== 'credential')) {
      const keys = objectExample(field)
        ?.split(',')
        .map((pair) => pair.split('=')[0])
      expect(Object.keys(schema.properties), name).to.include.members(keys ?? [])
      expect(keys, name).to.include.members(schema.required)
    }
  })

  it('require a host if they change the first host by default', () => {
    const changing = operations.filter(({ method, path }) => {
      const { parameters = [] } = document.paths[path]![method.toLowerCase()]!
      const text = parameters.find(({ name }) => name === 'host_id')?.schema.description
      return method !== 'GET' && text?.startsWith('Id of the host. Default: the first host')
    })
    expect(changing.map(commandOf)).to.have.members([...hostCommands])
    const texts = changing.map(({ flags }) => flags.find(({ field }) => field === 'host_id')!.text)
    for (const text of texts)
      expect(text).to.include('Required if the fleet has several hosts.').and.not.include('Default')
  })

  it('say that a check for abuse includes all hosts by default', () => {
    const check = operations.find((operation) => commandOf(operation) === 'security check')!
    expect(check.flags.find(({ field }) => field === 'host_id')!.text).to.include('or else all hosts that are online')
  })

  it('list all kinds of events in the help', () => {
    const program = createProgram({ operations, surroundings: {} as Surroundings, words: [] })
    const events = program.commands.find((command) => command.name() === 'events')!
    const { description } = events.options.find(({ long }) => long === '--kinds')!
    expect(description.replace(/^.*: /, '').split(', ')).to.have.members(eventKinds)
  })

  it('have a description for exactly the nouns (such as “guest”) that they use', () => {
    expect(Object.keys(describeNouns)).to.have.members([...new Set(operations.map(({ noun }) => noun))])
  })
})
