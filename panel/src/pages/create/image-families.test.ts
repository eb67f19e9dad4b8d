import { expect } from 'chai'
import { badgeColour, familyName, groupFamilies, versionText } from './image-families.ts'

const image = (distro: string, name: string, release = '') => ({
  id: name.toLowerCase().replace(' ', '-'),
  name,
  distro,
  release,
  arch: 'amd64',
})

describe('the families of images', () => {
  it('contain the versions of one distribution, newest first, and are sorted by name', () => {
    const images = [
      image('ubuntu', 'Ubuntu 24.04'),
      image('debian', 'Debian 9'),
      image('debian', 'Debian 13'),
      image('alpine', 'Alpine 3.22'),
      image('debian', 'Debian 12'),
    ]
    expect(groupFamilies(images).map(({ name, versions }) => [name, versions.map((one) => one.name)])).to.deep.equal([
      ['Alpine', ['Alpine 3.22']],
      ['Debian', ['Debian 13', 'Debian 12', 'Debian 9']],
      ['Ubuntu', ['Ubuntu 24.04']],
    ])
  })

  for (const [distro, name] of [
    ['debian', 'Debian'],
    ['rockylinux', 'Rocky Linux'],
    ['my-own', 'My-own'],
  ] as const)
    it(`has the name “${name}” for ${distro}`, () => expect(familyName(distro)).to.equal(name))

  it('show the release of a version only if its name does not contain it', () => {
    expect(versionText(image('alpine', 'Alpine 3.22', '3.22'))).to.equal('Alpine 3.22 · amd64')
    expect(versionText(image('debian', 'Debian 13', 'trixie'))).to.equal('Debian 13 · trixie · amd64')
  })

  it('have badges whose colours are dark enough for white letters', () => {
    for (const distro of ['debian', 'ubuntu', 'alpine', 'fedora', 'archlinux', 'void', 'gentoo', 'kali', 'oracle', ''])
      expect(contrastToWhite(badgeColour(distro)), distro).to.be.greaterThan(4.5)
  })
})

/** Contrast as the WCAG defines it. */
function contrastToWhite(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5]
    .map((at) => Number.parseInt(colour.slice(at, at + 2), 16) / 255)
    .map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
  return 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05)
}
