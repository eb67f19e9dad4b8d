import { expect } from 'chai'
import { execFileSync } from 'node:child_process'
import { Nft } from '../../agent/host/net/nft.js'
import { Tables } from '../../agent/network/nft/tables/tables.js'

/* The tests create this table in the host's network namespace. Its rules name a bridge that does not exist. */
const table = 'btest_tables'

/** Deletes a table, as another program could, after all tables were created and before they are read. */
class MeddledNft extends Nft {
  meddles = true

  override async apply(commands: readonly string[]): Promise<void> {
    await super.apply(commands)
    if (this.meddles) execFileSync('nft', ['delete', 'table', 'bridge', table])
    this.meddles = false
  }
}

describe('the nft tables of an agent', () => {
  const nft = new MeddledNft()
  const tables = new Tables(nft, {
    table,
    bridge: 'btest-none',
    interfacePrefix: 'btn',
    countInternal: false,
    subnet: '10.79.0.0/24',
    gateway: '10.79.0.1',
    subnet6: 'fd79::/64',
    closed: [],
    resolvers: [],
  })
  const exists = async (): Promise<boolean> => (await nft.readTable('bridge', table)) !== undefined

  after(async () => {
    await tables.remove()
    await nft.close()
  })

  it('are created again at the next comparison with the kernel if they were deleted while being created', async () => {
    await tables.ensure([])
    expect(await exists()).to.equal(false)
    tables.disturbed() // the agent calls this after a notification of the kernel
    expect((await tables.ensure([])).repairs).to.deep.equal(['nft tables rebuilt'])
    expect(await exists()).to.equal(true)
    expect((await tables.ensure([])).repairs).to.deep.equal([])
  })
})
