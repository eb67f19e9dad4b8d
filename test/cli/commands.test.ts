import { expect } from 'chai'
import { compactOperations, type ApiDocument } from '../../cli/catalog/compact.js'
import { describeNouns } from '../../cli/catalog/nouns.js'
import { commandOf } from '../../cli/catalog/operation.js'
import { createProgram } from '../../cli/program.js'
import type { Surroundings } from '../../cli/surroundings.js'
import { apiDocument } from '../../scripts/lib/api-document.js'

const document = apiDocument() as ApiDocument
const operations = compactOperations(document)

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

  it('have a description for exactly the nouns (such as “guest”) that they use', () => {
    expect(Object.keys(describeNouns)).to.have.members([...new Set(operations.map(({ noun }) => noun))])
  })
})
