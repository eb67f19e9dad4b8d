import { expect } from 'chai'
import { findTests, formatTimes, isComplete, planChains, selectTests, splitJob, type Job } from './jobs.js'

const all = { parts: [], unitOnly: false, quickOnly: false }
const labels = (files: readonly string[], times: readonly (readonly [string, number])[] = []): string[][] =>
  planChains(files, new Map(times)).map(({ jobs }) => jobs.map(({ label }) => label))

describe('the selection of test files', () => {
  const files = ['agent/a.test.ts', 'test/api/keys.test.ts', 'test/operations/order.test.ts', 'test/host/boot.test.ts']

  const onRequest = 'test/packages/delivery.test.ts'

  it('includes the tests of packages only if the call names them', () => {
    expect(selectTests([...files, onRequest], all)).to.deep.equal(files)
    expect(selectTests([...files, onRequest], { ...all, parts: ['packages'] })).to.deep.equal([onRequest])
  })

  it('counts as complete if only the tests of packages are missing', () => {
    expect(isComplete(files, [...files, onRequest])).to.equal(true)
    expect(isComplete(files.slice(1), files)).to.equal(false)
  })

  for (const [name, selection, selected] of [
    ['all files if the call restricts nothing', all, files],
    ['files whose path contains one of the given parts', { ...all, parts: ['api/', './agent'] }, [files[0], files[1]]],
    ['only tests next to the code with the option --unit', { ...all, unitOnly: true }, [files[0]]],
    ['only tests that need no root privileges for the quick run', { ...all, quickOnly: true }, [files[0], files[2]]],
    ['no file if no path contains the given part', { ...all, parts: ['missing'] }, []],
  ] as const)
    it(`selects ${name}`, () => expect(selectTests(files, selection)).to.deep.equal(selected))

  it('puts every test of the repository into exactly one job', () => {
    const found = findTests()
    const planned = planChains(found, new Map()).flatMap(({ jobs }) => jobs.flatMap((job) => job.files))
    expect(planned.sort()).to.deep.equal(found)
  })
})

describe('the plan of the test processes', () => {
  it('puts the test files of a group into one chain of jobs, and begins with the longest chain', () => {
    const files = ['test/setup/a.test.ts', 'test/setup/b.test.ts', 'test/host/boot.test.ts', 'test/faults/kill.test.ts']
    const times = [20, 30, 40, 60].map((seconds, index) => [files[index] ?? '', seconds] as const)
    expect(labels(files, times)).to.deep.equal([[files[3]], [files[1], files[0]], [files[2]]])
  })

  it('begins with the file that fills the image cache', () => {
    const image = 'test/host/images.test.ts'
    expect(labels(['test/host/boot.test.ts', image], [['test/host/boot.test.ts', 500]])).to.deep.equal([
      [image],
      ['test/host/boot.test.ts'],
    ])
  })

  it('begins with files that occupy two lanes (slots for parallel jobs), even before longer files', () => {
    const [long, crowd] = ['test/host/boot.test.ts', 'test/host/hostile-guest.test.ts']
    expect(labels([long, crowd], [[long, 500]])).to.deep.equal([[crowd], [long]])
  })

  it('puts up to ten files of a folder with quick tests into one process', () => {
    const files = Array.from({ length: 11 }, (_, index) => `test/api/${String(index).padStart(2, '0')}.test.ts`)
    expect(labels(files)).to.deep.equal([['test/api (1)'], ['test/api/10.test.ts']])
  })

  it('puts up to five browser test files into one process', () => {
    const files = [...'abcdef'].map((name) => `test/browser/${name}.test.ts`)
    expect(labels(files)).to.deep.equal([['test/browser (1)'], ['test/browser/f.test.ts']])
  })

  it('puts all test files next to the code of a top-level folder, such as agent, into one process', () =>
    expect(labels(['agent/a.test.ts', 'agent/b.test.ts'])).to.deep.equal([['agent (tests next to the code)']]))

  it('repeats each test file of a failed process in a separate process, except tests next to the code', () => {
    const [shared, unit] = ['test/api/a.test.ts', 'agent/a.test.ts'].map(
      (file) => planChains([file, file.replace('/a.', '/b.')], new Map())[0]?.jobs[0] as Job,
    )
    expect(shared && splitJob(shared).map(({ label }) => label)).to.deep.equal([
      'test/api/a.test.ts',
      'test/api/b.test.ts',
    ])
    expect(unit && splitJob(unit)).to.deep.equal([])
  })

  it('stores the recorded durations sorted by the names of the tests', () =>
    expect(
      formatTimes(
        new Map([
          ['b', 5],
          ['a', 120],
        ]),
      ),
    ).to.equal(' 120 a\n   5 b\n'))
})
