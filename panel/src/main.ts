import { mount } from 'svelte'
import App from './App.svelte'
import { texts } from './i18n/text.svelte.ts'
import './styles/index.css'
import { theme } from './ui/theme.svelte.ts'

theme.start()
await texts.start()
const target = document.getElementById('app')!
target.replaceChildren()
mount(App, { target })
