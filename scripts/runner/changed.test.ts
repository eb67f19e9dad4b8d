import { expect } from 'chai'
import { affectedTests, fileFinder, readGraph, type Graph } from './changed.js'
import { findTests } from './jobs.js'

const graphOf = (entries: Record<string, readonly string[]>): Graph =>
  new Map(Object.entries(entries).map(([file, needed]) => [file, new Set(needed)]))

describe('the tests that a change affects', () => {
  const tests = ['agent/a.test.ts', 'test/agent/b.test.ts']
  const graph = graphOf({
    'agent/a.test.ts': ['agent/a.ts'],
    'agent/main.ts': ['agent/b.ts', 'proto/gen/guest.ts'],
    'test/support/agent.ts': ['agent/main.ts'],
    'test/agent/b.test.ts': ['test/support/agent.ts'],
  })

  for (const [name, changed, affected] of [
    ['the tests that import the changed file', ['agent/a.ts'], [tests[0]]],
    ['the tests that start a program which imports the changed file', ['agent/b.ts'], [tests[1]]],
    ['the tests that use code generated from the changed file', ['proto/guest.proto'], [tests[1]]],
    ['only the changed file itself if this file is a test', ['agent/a.test.ts'], [tests[0]]],
    ['no tests if a document has changed', ['docs/network.md'], []],
    ['all tests if the version of a package has changed', ['package-lock.json'], tests],
    ['all tests if the test runner has changed', ['scripts/runner/lanes.ts'], tests],
  ] as const)
    it(`are ${name}`, () => expect(affectedTests(changed, tests, graph)).to.deep.equal(affected))
})

describe('the search for repository files that a program names', () => {
  const tracked = ['agent/main.ts', 'scripts/up', 'test/support/network/packets.py', 'panel/a.svelte']
  const find = fileFinder(tracked)

  for (const [name, named] of [
    ['../../dist/agent/main.js', ['agent/main.ts']],
    ['agent/main.ts', ['agent/main.ts']],
    ['scripts/up', ['scripts/up']],
    ['packets.py', ['test/support/network/packets.py']],
    ['../../dist/panel', ['panel/a.svelte']],
    ['./main.js', []],
    ['node_modules/x.js', []],
  ] as const)
    it(`finds ${named.join(', ') || 'no file'} for the name ${name}`, () => expect(find(name)).to.deep.equal(named))
})

describe('the dependency graph of the repository', () => {
  let graph: Graph
  before(async () => (graph = await readGraph()))
  const affected = (file: string): string[] => affectedTests([file], findTests(), graph)

  it('leads from a Perl program of the agent to tests that start an agent', () =>
    expect(affected('agent/host/perl/launcher.pl')).to.include('test/agent/settings.test.ts'))

  it('leads from a set-up script to the tests of the set-up', () =>
    expect(affected('scripts/lib/purge.sh')).to.include('test/setup/up-down.test.ts'))

  it('leads from the protocol to tests of the agent and the gateway', () =>
    expect(affected('proto/berth/agent/v1/guest.proto')).to.include.members([
      'test/agent/settings.test.ts',
      'test/api/guests/containers.test.ts',
    ]))

  it('does not lead from a file of the gateway to tests that start only an agent', () =>
    expect(affected('gateway/webhooks/deliverer.ts')).not.to.include('test/host/boot.test.ts'))
})
