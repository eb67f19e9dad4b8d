// Protocol code from proto/ into proto/gen, with buf and ts-proto; nothing is fetched.
import { execFileSync } from 'node:child_process'
import { rmSync } from 'node:fs'

rmSync('proto/gen', { recursive: true, force: true })
execFileSync('node_modules/.bin/buf', ['generate'], { stdio: 'inherit' })
