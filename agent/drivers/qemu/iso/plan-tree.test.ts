import { expect } from 'chai'
import { planTree } from './plan-tree.js'

describe('the plan of the directories of an ISO image', () => {
  for (const [what, files, directories] of [
    ['an empty list of files', [], [':0']],
    ['files without directories', ['user-data', 'meta-data'], [':0 meta-data=file1 user-data=file0']],
    [
      'files in nested directories, level by level',
      ['b/x', 'a/deep/y', 'c', 'a/z'],
      [':0 a=directory1 b=directory2 c=file2', 'a:0 deep=directory3 z=file3', 'b:0 x=file0', 'deep:1 y=file1'],
    ],
    [
      'a directory whose name begins with the name of another directory',
      ['a-b/c', 'a/d'],
      [':0 a=directory1 a-b=directory2', 'a:0 d=file1', 'a-b:0 c=file0'],
    ],
  ] as const)
    it(`contains the tree for ${what}`, () => {
      const told = planTree(files).map(({ name, parent, entries }) =>
        [`${name}:${parent}`, ...entries.map((one) => `${one.name}=${one.kind}${one.index}`)].join(' '),
      )
      expect(told).to.deep.equal(directories)
    })

  for (const name of ['', 'a//b', '../a', 'ü', 'a b', 'x'.repeat(65)])
    it(`rejects the file name ${JSON.stringify(name)}`, () =>
      expect(() => planTree([name])).to.throw('not allowed on a CD'))
})
