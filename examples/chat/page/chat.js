// The chat on a page: the routes and types of api.py, by RSocket over the browser's WebSocket.

import {connect} from './rsocket.js';

const SERVICE = 'ws://127.0.0.1:7879/rsocket';
const REFUSED = 4401; // UNAUTHENTICATED: the token is wrong, and stays so
const $ = (id) => document.getElementById(id);
const say = (text) => ($('status').textContent = text);

let chat = null; // the connection
let room = '';

function show({author, text}) {
  const line = document.createElement('li');
  line.textContent = `${author}: ${text}`; // textContent: what others write is never markup
  $('messages').append(line);
}

async function stay(token) {
  let seen = 0; // the number of the last message, also after a lost connection
  for (;;) {
    try {
      chat = await connect(SERVICE, {token});
      say(`here are ${(await chat.requestResponse(`chat.${room}.join`)).join(' ')}`);
      $('say').hidden = false;
      for await (const message of chat.requestStream(`chat.${room}.messages`, seen)) {
        show(message);
        seen = message.number;
      }
      say('the server stops');
    } catch (error) {
      say(error.message);
      if (error.code === REFUSED) return;
    } finally {
      $('say').hidden = true;
      chat?.close();
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

$('enter').onsubmit = async (event) => {
  event.preventDefault();
  const {room: asked, token} = event.target.elements;
  room = asked.value;
  event.target.hidden = true;
  await stay(token.value.trim());
  event.target.hidden = false;
};

$('say').onsubmit = async (event) => {
  event.preventDefault();
  const {text} = event.target.elements;
  try {
    await chat.requestResponse(`chat.${room}.say`, text.value);
    text.value = '';
  } catch (error) {
    say(error.message); // this message failed, and not the connection
  }
};
