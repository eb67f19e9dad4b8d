import { expect } from 'chai'
import { findTests, formatTimes, isComplete, planChains, selectTests, splitJob, type Job } from './jobs.js'

const all = { parts: [], unitOnly: false, quickOnly: false }
const labels = (files: readonly string[], times: readonly (readonly [string, number])[] = []): string[][] =>
  planChains(files, new Map(times)).map(({ jobs }) => jobs.map(({ label }) => label))

describe('selection of test files', () => {
  const files = ['agent/a.test.ts', 'test/api/keys.test.ts', 'test/operations/order.test.ts', 'test/host/boot.test.ts']

  const onRequest = 'test/packages/delivery.test.ts'

  it('leaves out tests of packages unless they are named', () => {
    expect(selectTests([...files, onRequest], all)).to.deep.equal(files)
    expect(selectTests([...files, onRequest], { ...all, parts: ['packages'] })).to.deep.equal([onRequest])
  })

  it('counts as complete without them, but not without any other file', () => {
    expect(isComplete(files, [...files, onRequest])).to.equal(true)
    expect(isComplete(files.slice(1), files)).to.equal(false)
  })

  for (const [name, selection, selected] of [
    ['all files', all, files],
    ['files whose path contains one of the parts', { ...all, parts: ['api/', './agent'] }, [files[0], files[1]]],
    ['tests next to the code', { ...all, unitOnly: true }, [files[0]]],
    ['tests that need no root', { ...all, quickOnly: true }, [files[0], files[2]]],
    ['no file for an unknown part', { ...all, parts: ['missing'] }, []],
  ] as const)
    it(`selects ${name}`, () => expect(selectTests(files, selection)).to.deep.equal(selected))

  it('finds every test of the repository in exactly one job', () => {
    const found = findTests()
    const planned = planChains(found, new Map()).flatMap(({ jobs }) => jobs.flatMap((job) => job.files))
    expect(planned.sort()).to.deep.equal(found)
  })
})

describe('order of test processes', () => {
  it('begins with the longest, and counts the files of a group together', () => {
    const files = ['test/setup/a.test.ts', 'test/setup/b.test.ts', 'test/host/boot.test.ts', 'test/faults/kill.test.ts']
    const times = [20, 30, 40, 60].map((seconds, index) => [files[index] ?? '', seconds] as const)
    expect(labels(files, times)).to.deep.equal([[files[3]], [files[1], files[0]], [files[2]]])
  })

  it('begins with the file that fills the cache of images', () => {
    const image = 'test/host/images.test.ts'
    expect(labels(['test/host/boot.test.ts', image], [['test/host/boot.test.ts', 500]])).to.deep.equal([
      [image],
      ['test/host/boot.test.ts'],
    ])
  })

  it('begins with files that take two lanes, before longer ones', () => {
    const [long, crowd] = ['test/host/boot.test.ts', 'test/host/hostile-guest.test.ts']
    expect(labels([long, crowd], [[long, 500]])).to.deep.equal([[crowd], [long]])
  })

  it('puts up to ten files of a cheap folder into one process', () => {
    const files = Array.from({ length: 11 }, (_, index) => `test/api/${String(index).padStart(2, '0')}.test.ts`)
    expect(labels(files)).to.deep.equal([['test/api (1)'], ['test/api/10.test.ts']])
  })

  it('puts the tests next to the code of a folder into one process', () =>
    expect(labels(['agent/a.test.ts', 'agent/b.test.ts'])).to.deep.equal([['agent (tests next to the code)']]))

  it('splits a process that broke into its files, except tests next to the code', () => {
    const [shared, unit] = ['test/api/a.test.ts', 'agent/a.test.ts'].map(
      (file) => planChains([file, file.replace('/a.', '/b.')], new Map())[0]?.jobs[0] as Job,
    )
    expect(shared && splitJob(shared).map(({ label }) => label)).to.deep.equal([
      'test/api/a.test.ts',
      'test/api/b.test.ts',
    ])
    expect(unit && splitJob(unit)).to.deep.equal([])
  })

  it('writes durations by name', () =>
    expect(
      formatTimes(
        new Map([
          ['b', 5],
          ['a', 120],
        ]),
      ),
    ).to.equal(' 120 a\n   5 b\n'))
})
