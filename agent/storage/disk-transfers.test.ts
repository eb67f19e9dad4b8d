import { expect } from 'chai'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DiskTransfers } from './disk-transfers.js'
import type { Pool } from './pool.js'
import type { Trash } from './trash.js'
import type { VolumePlaces } from './volume-places.js'

describe('the disk transfers of moving guests', () => {
  let directory: string
  beforeEach(async () => (directory = await mkdtemp(join(tmpdir(), 'btest-transfers-'))))
  afterEach(() => rm(directory, { recursive: true }))

  it('delete received data that is not a complete and confirmed snapshot', async () => {
    for (const name of ['complete', 'cut-off', 'stray']) await mkdir(join(directory, name))
    const removed: string[] = []
    const trash = { destroy: async (_directory: string, names: readonly string[]) => void removed.push(...names) }
    const places = { snapshotsOf: () => directory, listSnapshots: async () => ['complete', 'cut-off'] }
    const transfers = new DiskTransfers(
      {} as Pool,
      trash as unknown as Trash,
      places as Partial<VolumePlaces> as VolumePlaces,
    )
    expect(await transfers.listComplete('u1', new Set(['complete', 'stray']))).to.deep.equal(['complete'])
    expect(removed.sort()).to.deep.equal(['cut-off', 'stray'])
  })
})
