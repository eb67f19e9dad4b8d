import { expect } from 'chai'
import { parseFailure, parseProgress, planBootstrap } from './bootstrap-plan.js'
import { recipes } from './catalog.js'

describe('the build of an image', () => {
  for (const entry of recipes)
    it(`kills all its processes at its end, and trusts only Debian's keys (${entry.id})`, () => {
      const command = planBootstrap(entry, '/pool/x', [`deb http://m/debian ${entry.suite} main`])
      expect(command).to.include.members(['--pid', '--fork', '--kill-child', '--mount'])
      expect(command).to.include('--keyring=/usr/share/keyrings/debian-archive-keyring.gpg')
      expect(command.slice(-3)).to.deep.equal([entry.suite, '/pool/x', `deb http://m/debian ${entry.suite} main`])
    })

  it('reports increasing progress', () => {
    const lines = [
      "I: chroot architecture amd64 is equal to the host's architecture",
      'I: running apt-get update...',
      'I: downloading packages with apt...',
      'I: extracting archives...',
      'I: installing essential packages...',
      'I: installing remaining packages inside the chroot...',
      'I: cleaning package lists and apt cache...',
      'I: success in 22.1 seconds',
    ]
    const fractions = lines.flatMap((line) => parseProgress(line)?.fraction ?? [])
    expect(fractions)
      .to.deep.equal([...fractions].sort((a, b) => a - b))
      .and.have.length(6)
  })

  for (const [stderr, kind] of [
    ['dpkg: error: cannot copy: No space left on device', 'full'],
    ["W: Failed to fetch http://m/x  Could not resolve 'm'", 'network'],
    ['E: Failed to fetch http://m/x  404  Not Found', 'network'],
    ["W: GPG error: http://m InRelease: signatures couldn't be verified: NO_PUBKEY 0E98404D386FA1D9", 'signature'],
    ["E: The repository 'http://m bookworm Release' is not signed.", 'signature'],
    ['E: Sub-process returned an error code', 'other'],
  ] as const)
    it(`reports “${stderr}” as a failure of the kind "${kind}"`, () => expect(parseFailure(stderr)).to.equal(kind))
})
