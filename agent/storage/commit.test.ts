import { expect } from 'chai'
import { DirectoryCommit } from './commit.js'

describe('directory commit', () => {
  let ends: ((error?: Error) => void)[]
  let commit: DirectoryCommit
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

  beforeEach(() => {
    ends = []
    commit = new DirectoryCommit(
      'd',
      () => new Promise((resolve, reject) => ends.push((error) => (error ? reject(error) : resolve()))),
    )
  })

  it('lets all who come during one share the next, never the one that may have begun before', async () => {
    const ended: number[] = []
    const calls = Array.from({ length: 100 }, (_, n) => commit.commit().then(() => ended.push(n)))
    expect(ends).to.have.length(1)
    ends[0]?.()
    await turn()
    expect(ended).to.deep.equal([0])
    expect(ends).to.have.length(2)
    const late = commit.commit()
    ends[1]?.()
    await Promise.all(calls)
    await turn()
    ends[2]?.()
    await late
    expect(ends).to.have.length(3)
    void commit.commit()
    expect(ends).to.have.length(4)
  })

  it('fails for those whose commit failed, and begins anew for who comes next', async () => {
    const first = commit.commit().catch((error: Error) => error.message)
    const second = commit.commit()
    ends[0]?.(new Error('EIO'))
    expect(await first).to.equal('EIO')
    await turn()
    ends[1]?.()
    await second
  })
})
