import { expect } from 'chai'
import { affectedTests, fileFinder, readGraph, type Graph } from './changed.js'
import { findTests } from './jobs.js'

const graphOf = (entries: Record<string, readonly string[]>): Graph =>
  new Map(Object.entries(entries).map(([file, needed]) => [file, new Set(needed)]))

describe('tests affected by a change', () => {
  const tests = ['agent/a.test.ts', 'test/agent/b.test.ts']
  const graph = graphOf({
    'agent/a.test.ts': ['agent/a.ts'],
    'agent/main.ts': ['agent/b.ts', 'proto/gen/guest.ts'],
    'test/support/agent.ts': ['agent/main.ts'],
    'test/agent/b.test.ts': ['test/support/agent.ts'],
  })

  for (const [name, changed, affected] of [
    ['tests that import the file', ['agent/a.ts'], [tests[0]]],
    ['tests that start a program which imports it', ['agent/b.ts'], [tests[1]]],
    ['tests whose code is generated from it', ['proto/guest.proto'], [tests[1]]],
    ['a test that is changed itself', ['agent/a.test.ts'], [tests[0]]],
    ['no tests for a document', ['docs/network.md'], []],
    ['all tests for another version of a package', ['package-lock.json'], tests],
    ['all tests for the runner', ['scripts/runner/lanes.ts'], tests],
  ] as const)
    it(`are ${name}`, () => expect(affectedTests(changed, tests, graph)).to.deep.equal(affected))
})

describe('files that a text names', () => {
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
    it(name, () => expect(find(name)).to.deep.equal(named))
})

describe('graph of the repository', () => {
  let graph: Graph
  before(async () => (graph = await readGraph()))
  const affected = (file: string): string[] => affectedTests([file], findTests(), graph)

  it('leads from a program in Perl to the tests of an agent', () =>
    expect(affected('agent/host/perl/launcher.pl')).to.include('test/agent/settings.test.ts'))

  it('leads from a script to the tests of the setup', () =>
    expect(affected('scripts/lib/purge.sh')).to.include('test/setup/up-down.test.ts'))

  it('leads from the protocol to tests on both sides', () =>
    expect(affected('proto/berth/agent/v1/guest.proto')).to.include.members([
      'test/agent/settings.test.ts',
      'test/api/guests/containers.test.ts',
    ]))

  it('does not lead from the gateway to tests of agents that run without one', () =>
    expect(affected('gateway/webhooks/deliverer.ts')).not.to.include('test/host/boot.test.ts'))
})
